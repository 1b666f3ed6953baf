//! From what the user named to the models that will be served: given ones first, then whatever the folders hold.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use omlx_hub::{Config, Found, Progress, discover, resolve};

use crate::config::Resolved;
use crate::places::hub_config;
use crate::shown::shown;

/// What was found.
pub(crate) struct Finds {
    /// All models, the given ones first.
    pub(crate) models: Vec<Found>,
    /// Ids of the given ones, to be loaded at start.
    pub(crate) given: Vec<String>,
}

/// Looks the given models up (fetching them where that is needed and allowed) and through the folders.
pub(crate) fn find(wanted: &Resolved) -> Result<Finds> {
    for dir in &wanted.model_dirs {
        if dir.is_file() && dir.extension().is_none_or(|end| end != "gguf") {
            let dir = shown(&dir.to_string_lossy()).into_owned();
            bail!("--model-dir {dir}: a file; give the folder that holds the models");
        }
    }
    let hub = hub_config(&wanted.model_dirs, wanted.offline);
    let mut models = Vec::new();
    for model in &wanted.models {
        let bar = Bar::new();
        let looked = resolve(&model.source, &hub, &mut |progress| bar.show(progress));
        bar.end();
        let found = match looked {
            // Listed with the reason, like one below --model-dir, so that the others can be served.
            Err(omlx_hub::Error::Incomplete { found, .. }) => *found,
            looked => looked.map_err(|error| told(&model.source, &error, &hub))?,
        };
        models.push(found);
    }
    let survey = discover(&wanted.model_dirs);
    let fetched = |found: &Found| hub.hub_cache.as_ref().is_some_and(|cache| found.path.starts_with(cache));
    call_by_place(&mut models, &survey.models, fetched);
    for (found, asked) in models.iter_mut().zip(&wanted.models) {
        if let Some(alias) = &asked.alias {
            found.id.clone_from(alias);
        }
    }
    let given = models.iter().map(|m: &Found| m.id.clone()).collect();
    for skipped in &survey.skipped {
        tracing::warn!("{}: {}", skipped.path.display(), skipped.why);
    }
    for adapter in &survey.adapters {
        tracing::warn!("{}: an adapter, not a model; adapters are not served", adapter.path.display());
    }
    models.extend(survey.models);
    Ok(Finds { models, given })
}

/// Calls each given model by where it lies, however it was asked for: one below `--model-dir` by its path there, as if it had
/// not been given; one from the hub by its name there; and every other by the last part of its path.
fn call_by_place(given: &mut [Found], below: &[Found], fetched: impl Fn(&Found) -> bool) {
    let real = |found: &Found| found.path.canonicalize().ok();
    let below: Vec<_> = below.iter().map(|found| (real(found), &found.id)).collect();
    let mut taken = HashSet::new();
    for found in given {
        let place = real(found);
        if let Some((_, id)) = below.iter().find(|(other, _)| other.is_some() && *other == place) {
            found.id.clone_from(id);
        } else if !fetched(found) {
            let name = found.path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.strip_suffix(".gguf").unwrap_or(&name);
            // A snapshot of another cache lies in a folder that no one would ask for, so that one keeps the name of its repository.
            // And of two that would be called the same the second keeps its longer name.
            let is_last = found.id.rsplit('/').next() == Some(name);
            if is_last && !taken.contains(name) {
                found.id = name.to_owned();
            }
        }
        taken.insert(found.id.clone());
    }
}

/// The failure with the flag that asked for it, and names that are like the one that leads nowhere.
fn told(asked: &str, error: &omlx_hub::Error, hub: &Config) -> anyhow::Error {
    let here = || discover(&hub.model_dirs).models.into_iter().map(|m| m.id);
    let near = match error {
        // whoever cannot reach the hub may be content with what is here, and whoever mistyped sees what there is
        omlx_hub::Error::NotFound { .. } | omlx_hub::Error::Network { .. } => match near(asked, here()) {
            near if near.is_empty() => {
                let all: Vec<String> = here().collect();
                let more = all.len().saturating_sub(5);
                let more = (more > 0).then(|| format!("and {more} more"));
                all.into_iter().take(5).chain(more).collect()
            }
            near => near,
        },
        _ => Vec::new(),
    };
    let said = error.to_string();
    let flag = if said.contains(asked) { "--model".to_owned() } else { format!("--model {asked}") };
    let offline = if hub.hub.is_none() { ", with --offline" } else { "" };
    let hint = match error {
        omlx_hub::Error::Ambiguous { .. } if Path::new(asked).is_dir() => {
            format!(", or serve all of them with --model-dir {asked}")
        }
        _ if near.is_empty() => String::new(),
        _ => format!("; here is {}", near.join(", ")),
    };
    // Names and paths are in it as they were typed, or as they stand in a folder.
    anyhow!("{}", shown(&format!("{flag}{offline}: {said}{hint}")))
}

/// The ids that are like a name, the likest first.
fn near(name: &str, ids: impl Iterator<Item = String>) -> Vec<String> {
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_lowercase();
    let name = last(name);
    let mut near: Vec<(f64, String)> = ids
        .map(|id| {
            let other = last(&id);
            let part = !name.is_empty() && (other.contains(&name) || name.contains(&other));
            (if part { 1.0 } else { strsim::jaro_winkler(&name, &other) }, id)
        })
        .filter(|(likeness, _)| *likeness > 0.8)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    near.into_iter().take(3).map(|(_, id)| id).collect()
}

/// A progress bar that appears with the first byte of a download.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::hidden();
        let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self(bar)
    }

    fn show(&self, progress: &Progress) -> ControlFlow<()> {
        if self.0.is_hidden() {
            self.0.set_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(5));
        }
        self.0.set_length(progress.total_bytes);
        self.0.set_position(progress.done_bytes);
        self.0.set_message(progress.file.clone());
        ControlFlow::Continue(())
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    //! Names: what a model is called, and which are like others.

    use std::fs;

    use omlx_hub::discover;

    use super::{call_by_place, near};

    /// By name and by path a model of the shelf is called alike.
    #[test]
    fn a_name_says_where_a_model_lies() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["shelf/gguf/a.gguf", "shelf/o1/m.gguf", "shelf/o2/m.gguf", "cache/models--o--n/snapshots/c/n.gguf"]
        {
            let file = dir.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "no model, but named like one").unwrap();
        }
        let (shelf, cache) = (dir.path().join("shelf"), dir.path().join("cache"));
        let all = || discover(&[shelf.clone(), cache.clone()]).models;
        let ids = |below: &[_]| {
            let mut given = all();
            call_by_place(&mut given, below, |found| found.path.starts_with(&cache));
            given.into_iter().map(|found| found.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&[]), ["a", "m", "o2/m", "o/n/n"]);
        assert_eq!(ids(&discover(std::slice::from_ref(&shelf)).models), ["gguf/a", "o1/m", "o2/m", "o/n/n"]);
        assert_eq!(ids(&discover(&[shelf.join("gguf")]).models), ["a", "m", "o2/m", "o/n/n"]);
    }

    #[test]
    fn near_names() {
        let ids =
            ["gguf/SmolLM2-135M-Instruct.Q4_1", "smollm2-135m-instruct", "gemma-3-270m", "qwen2.5-coder-0.5b-instruct"];
        for (name, expected) in [
            ("smollm", &["gguf/SmolLM2-135M-Instruct.Q4_1", "smollm2-135m-instruct"][..]),
            ("gema-3-270m", &["gemma-3-270m"]),
            ("Qwen/Qwen2.5-Coder-0.5B-Instruct", &["qwen2.5-coder-0.5b-instruct"]),
            ("mixtral", &[]),
        ] {
            assert_eq!(near(name, ids.iter().map(|id| (*id).to_owned())), expected, "{name}");
        }
    }
}
