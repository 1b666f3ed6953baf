//! From what the user named to the models that will be served: given ones first, then whatever the folders hold.

use std::ops::ControlFlow;

use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use omlx_hub::{Config, Found, Progress, discover, resolve};

use crate::config::Resolved;
use crate::places::hub_config;

/// What was found.
pub(crate) struct Finds {
    /// All models, the given ones first.
    pub(crate) models: Vec<Found>,
    /// Ids of the given ones, to be loaded at start.
    pub(crate) given: Vec<String>,
}

/// Looks the given models up (fetching them where that is needed and allowed) and through the folders.
pub(crate) fn find(wanted: &Resolved) -> Result<Finds> {
    let hub = hub_config(&wanted.model_dirs, wanted.offline);
    let mut models = Vec::new();
    for model in &wanted.models {
        let bar = Bar::new();
        let looked = resolve(&model.source, &hub, &mut |progress| bar.show(progress));
        bar.end();
        let mut found = match looked {
            // Listed with the reason, like one below --model-dir, so that the others can be served.
            Err(omlx_hub::Error::Incomplete { found, .. }) => *found,
            looked => looked.map_err(|error| told(&model.source, &error, &hub))?,
        };
        if let Some(alias) = &model.alias {
            found.id.clone_from(alias);
        }
        models.push(found);
    }
    let given = models.iter().map(|m: &Found| m.id.clone()).collect();
    let survey = discover(&wanted.model_dirs);
    for skipped in &survey.skipped {
        tracing::warn!("{}: {}", skipped.path.display(), skipped.why);
    }
    for adapter in &survey.adapters {
        tracing::warn!("{}: an adapter, not a model; adapters are not served", adapter.path.display());
    }
    models.extend(survey.models);
    Ok(Finds { models, given })
}

/// The failure with the flag that asked for it, and names that are like the one that leads nowhere.
fn told(asked: &str, error: &omlx_hub::Error, hub: &Config) -> anyhow::Error {
    let near = match error {
        omlx_hub::Error::NotFound { .. } => near(asked, discover(&hub.model_dirs).models.into_iter().map(|m| m.id)),
        _ => Vec::new(),
    };
    let said = error.to_string();
    let flag = if said.contains(asked) { "--model".to_owned() } else { format!("--model {asked}") };
    let offline = if hub.hub.is_none() { ", with --offline" } else { "" };
    let hint = if near.is_empty() { String::new() } else { format!("; there is {}", near.join(", ")) };
    anyhow!("{flag}{offline}: {said}{hint}")
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
    //! Names that are like others.

    use super::near;

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
