//! Where models may lie, as this user's environment says: the one file that reads it, the key apart.

use std::path::PathBuf;

use omlx_hub::{Config, Hub};

/// Folders to look names up in, the hub's cache, and the hub unless `offline`.
pub(crate) fn hub_config(model_dirs: &[PathBuf], offline: bool) -> Config {
    let home = path("HOME");
    let cache = path("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
    let ours = path("OMLX_MODELS").or_else(|| Some(cache.as_ref()?.join("omlx").join("models")));
    let hub_cache = path("HF_HUB_CACHE")
        .or_else(|| Some(path("HF_HOME")?.join("hub")))
        .or_else(|| Some(cache?.join("huggingface").join("hub")));
    Config { model_dirs: model_dirs.iter().cloned().chain(ours).collect(), hub_cache, hub: (!offline).then(hub) }
}

fn hub() -> Hub {
    let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
    let proxy = text("HTTPS_PROXY").or_else(|| text("https_proxy"));
    Hub { token: text("HF_TOKEN"), proxy, ..Hub::at(&endpoint) }
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn path(name: &str) -> Option<PathBuf> {
    text(name).map(PathBuf::from)
}
