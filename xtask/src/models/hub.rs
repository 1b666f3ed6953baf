//! A model's file from the hub, where it can be reached.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use omlx_hub::{Hub, Repo};

use super::progress::bar;
use super::table::Model;
use crate::shell::{Done, Failed};

/// Where the public hub is.
const PUBLIC: &str = "https://huggingface.co";
/// How long to wait for a connection before the other source is tried.
const PATIENCE: Duration = Duration::from_secs(4);

/// Fetches the file into the cache; an interrupted one goes on where it stopped.
pub(super) fn fetch(model: &Model, dir: &Path) -> Done {
    let repo = model.hub.ok_or_else(|| Failed::new("it is not known there"))?;
    let repo: Repo = repo.parse().map_err(|e| Failed::new(format!("{e}")))?;
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| PUBLIC.to_owned());
    let proxy = set("HTTPS_PROXY").or_else(|| set("https_proxy"));
    let hub = Hub { token: set("HF_TOKEN"), proxy, connect_timeout: PATIENCE, retries: 2, ..Hub::at(&endpoint) };

    let cache = dir.join(".hub");
    let bar = bar(model.name, model.bytes);
    let arrived = omlx_hub::download(&repo, &cache, &hub, &mut |now| {
        bar.set_position(now.done_bytes);
        // another size is another file: no need to fetch it all to see that
        if now.file_bytes == model.bytes { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    bar.finish_and_clear();
    let link = arrived.map_err(|e| Failed::new(e.to_string()))?;
    let blob = link.canonicalize().map_err(Failed::at(&link))?;
    let accepted = super::accept(model, &blob, dir);
    fs::remove_dir_all(&cache).map_err(Failed::at(&cache))?;
    accepted
}
