//! A repository on the hub to a complete snapshot in the cache.
//!
//! Files arrive as `blobs/<sum>.incomplete`, are checked and renamed; the snapshot, a folder of links to them, appears in one rename
//! when all are there. So whatever is interrupted, a listing shows either the whole model or none of it.

mod client;
mod fetch;
mod listing;
mod snapshot;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cache;
use crate::error::{Error, Result};
use crate::resolve::Repo;
use client::Client;
use fetch::{Blob, fetch};
use listing::Listing;

/// How to reach the hub. All of it comes from the caller: nothing is read from the environment.
#[derive(Clone)]
pub struct Hub {
    /// Where the hub is, as in `https://host`; a mirror's address does.
    pub endpoint: String,
    /// The user's token; it is sent to the endpoint and nowhere else.
    pub token: Option<String>,
    /// A proxy's address, if one is needed.
    pub proxy: Option<String>,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long the other side may be silent.
    pub read_timeout: Duration,
    /// How often a broken transfer is taken up again before it is an error; progress starts the count anew.
    pub retries: u32,
}

impl Hub {
    /// A hub at this address, with no token and patient limits.
    pub fn at(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: None,
            proxy: None,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(60),
            retries: 4,
        }
    }
}

// a token must not reach a log by way of a derived Debug
impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "***");
        f.debug_struct("Hub").field("endpoint", &self.endpoint).field("token", &token).finish_non_exhaustive()
    }
}

/// How far a download is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The file being fetched.
    pub file: String,
    /// Its bytes that are here.
    pub file_done_bytes: u64,
    /// Its size.
    pub file_bytes: u64,
    /// Bytes of all files that are here.
    pub done_bytes: u64,
    /// The size of all files.
    pub total_bytes: u64,
}

/// Fetches a repository (or one GGUF file of it) and answers with its folder (or the file).
pub fn download(
    repo: &Repo,
    cache: &Path,
    hub: &Hub,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<PathBuf> {
    let client = Client::new(hub)?;
    let listing = Listing::get(&client, repo)?;
    let files = listing.wanted(repo)?;
    let folder = cache.join(cache::folder_name(&repo.name));
    let blobs = folder.join("blobs");
    fs::create_dir_all(&blobs).map_err(Error::io(&blobs))?;

    let total_bytes = files.iter().map(|f| f.bytes).sum();
    let mut before = 0;
    for file in &files {
        let blob =
            Blob { file, path: blobs.join(&file.sum), url: client.file_url(&repo.name, &listing.commit, &file.name) };
        let mut report = |file_done_bytes: u64| {
            let now = Progress {
                file: file.name.clone(),
                file_done_bytes,
                file_bytes: file.bytes,
                done_bytes: before + file_done_bytes,
                total_bytes,
            };
            match progress(&now) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Cancelled { repo: repo.name.clone() }),
            }
        };
        fetch(&client, &blob, &mut report)?;
        before += file.bytes;
    }
    let snapshot = snapshot::publish(&folder, &listing.commit, &repo.revision, &files)?;
    let gguf = files.iter().find(|f| f.name.ends_with(".gguf"));
    Ok(gguf.map(|f| snapshot.join(&f.name)).unwrap_or(snapshot))
}

/// Removes what interrupted downloads of a repository left behind, and only that; answers how many files went.
pub fn remove_partials(repo: &Repo, cache: &Path) -> Result<usize> {
    let blobs = cache.join(cache::folder_name(&repo.name)).join("blobs");
    let mut removed = 0;
    let Ok(entries) = fs::read_dir(&blobs) else {
        return Ok(0);
    };
    for path in entries.flatten().map(|e| e.path()) {
        if path.extension().is_some_and(|e| e == fetch::PARTIAL) {
            // holding the lock: a partial that is being written is not left behind
            let Ok(_lock) = fetch::lock(&path.with_extension("")) else {
                continue;
            };
            fs::remove_file(&path).map_err(Error::io(&path))?;
            removed += 1;
        }
    }
    Ok(removed)
}
