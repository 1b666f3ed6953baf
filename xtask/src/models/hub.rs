//! A model's file from the hub, where it can be reached.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use omlx_hub::{Error, Hub, Repo};

use super::progress::bar;
use super::table::Model;
use crate::shell::{Done, Failed};

/// Where the public hub is.
const PUBLIC: &str = "https://huggingface.co";
/// How long to wait for a connection before the other source is tried.
const PATIENCE: Duration = Duration::from_secs(4);

/// Fetches the file into the cache; an interrupted one goes on where it stopped.
pub(super) fn fetch(model: &Model, dir: &Path) -> Done {
    let repo = model.hub.ok_or_else(|| Failed::new("the Hugging Face hub is not known to have this file"))?;
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
    let link = arrived.map_err(reason)?;
    let blob = link.canonicalize().map_err(Failed::at(&link))?;
    let accepted = super::accept(model, &blob, dir);
    fs::remove_dir_all(&cache).map_err(Failed::at(&cache))?;
    accepted.map_err(|why| Failed::new(format!("the Hugging Face hub has another file of that name ({why})")))
}

/// Why the hub did not give it, in words that fit a second try elsewhere.
fn reason(error: Error) -> Failed {
    Failed::new(match error {
        Error::Network { url, source } => format!("the Hugging Face hub cannot be reached ({url}: {source})"),
        Error::Cancelled { .. } => "the Hugging Face hub has another file of that name".to_owned(),
        other => format!("the Hugging Face hub did not give the file ({other})"),
    })
}

#[cfg(test)]
mod tests {
    //! The reasons read well before a full stop and what is tried instead.

    use super::*;

    #[test]
    fn reasons() {
        let hub = Hub { connect_timeout: PATIENCE, retries: 0, ..Hub::at("http://127.0.0.1:9") };
        let dir = tempfile::tempdir().unwrap();
        let repo: Repo = "o/n/f.gguf".parse().unwrap();
        let unreached = omlx_hub::download(&repo, dir.path(), &hub, &mut |_| ControlFlow::Continue(())).unwrap_err();
        let text = reason(unreached).to_string();
        assert!(text.starts_with("the Hugging Face hub cannot be reached (http://127.0.0.1:9/"), "{text}");
        assert!(text.ends_with(')') && !text.contains("ask again"), "{text}");
        let other = reason(Error::Cancelled { repo: "o/n".into() }).to_string();
        assert_eq!(other, "the Hugging Face hub has another file of that name");
    }
}
