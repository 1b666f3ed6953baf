//! The layout of the Hugging Face cache, which other tools share: `models--owner--name/{blobs,refs,snapshots}`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder's name for a repository `owner/name`.
pub(crate) fn folder_name(repo: &str) -> String {
    format!("models--{}", repo.replace('/', "--"))
}

/// The repository a cache folder's name stands for.
pub(crate) fn repo_name(folder: &str) -> Option<String> {
    let rest = folder.strip_prefix("models--").filter(|r| !r.is_empty())?;
    // the owner has no double dash; a name may
    Some(rest.replacen("--", "/", 1))
}

/// Whether a text can stand as one step of a path, everywhere.
pub(crate) fn is_plain(step: &str) -> bool {
    !step.is_empty() && !step.starts_with('.') && !step.contains(['/', '\\', '\0', ':'])
}

/// The snapshot a cache folder stands for: the one `refs/<revision>` names, a commit of that name, or (for `main`) the newest there is.
pub(crate) fn snapshot(folder: &Path, revision: &str) -> Option<PathBuf> {
    let snapshots = folder.join("snapshots");
    let named = folder.join("refs").join(revision);
    // A pipe there would hold whoever reads it.
    let named = named.is_file().then(|| fs::read_to_string(named).ok()).flatten();
    let commit = named.as_deref().map(str::trim).unwrap_or(revision);
    let exact = snapshots.join(commit);
    if is_plain(commit) && exact.is_dir() {
        return Some(exact);
    }
    if revision != "main" {
        return None;
    }
    let dirs = fs::read_dir(snapshots).ok()?.flatten().filter(|e| !e.file_name().to_string_lossy().starts_with('.'));
    let modified = |e: &fs::DirEntry| e.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    // the name breaks a tie, so that the answer does not depend on the order of the listing
    dirs.filter(|e| e.path().is_dir()).max_by_key(|e| (modified(e), e.file_name())).map(|e| e.path())
}
