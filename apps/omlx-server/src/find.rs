//! From what the user named to the models that will be served: given ones first, then whatever the folders hold.

use std::ops::ControlFlow;

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use omlx_hub::{Found, Progress, discover, resolve};

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
            looked => looked.with_context(|| {
                format!("--model {}{}", model.source, if wanted.offline { ", with --offline" } else { "" })
            })?,
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
