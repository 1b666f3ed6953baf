//! The folder of links that makes downloaded blobs a model.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::listing::File;
use crate::error::{Error, Result};

/// Makes the snapshot of a commit show `files`, whose blobs are all here, and the revision point to it.
pub(super) fn publish(folder: &Path, commit: &str, revision: &str, files: &[File]) -> Result<PathBuf> {
    let snapshots = folder.join("snapshots");
    let snapshot = snapshots.join(commit);
    if snapshot.is_dir() {
        // another tool, or another file of this commit, was here before: add what is missing
        link_all(folder, &snapshot, files)?;
    } else {
        let hidden = snapshots.join(format!(".{commit}.{}", std::process::id()));
        let _ = fs::remove_dir_all(&hidden);
        link_all(folder, &hidden, files)?;
        if let Err(e) = fs::rename(&hidden, &snapshot) {
            // somebody finished the same commit a moment ago
            let _ = fs::remove_dir_all(&hidden);
            if !snapshot.is_dir() {
                return Err(Error::io(&snapshot)(e));
            }
            link_all(folder, &snapshot, files)?;
        }
    }
    point(folder, revision, commit)?;
    Ok(snapshot)
}

/// Writes `refs/<revision>` in one step.
fn point(folder: &Path, revision: &str, commit: &str) -> Result<()> {
    let refs = folder.join("refs");
    fs::create_dir_all(&refs).map_err(Error::io(&refs))?;
    let hidden = refs.join(format!(".{revision}.{}", std::process::id()));
    fs::write(&hidden, commit).map_err(Error::io(&hidden))?;
    fs::rename(&hidden, refs.join(revision)).map_err(Error::io(&refs))
}

fn link_all(folder: &Path, to: &Path, files: &[File]) -> Result<()> {
    for file in files {
        let link = to.join(&file.name);
        let parent = link.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
        // up from the file's folder to the repository's: snapshots, the commit and the file's own steps
        let up = "../".repeat(2 + file.name.matches('/').count());
        match link_one(Path::new(&format!("{up}blobs/{}", file.sum)), &folder.join("blobs").join(&file.sum), &link) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(Error::io(&link)(e)),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link_one(relative: &Path, _blob: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(relative, link)
}

#[cfg(not(unix))]
fn link_one(_relative: &Path, blob: &Path, link: &Path) -> io::Result<()> {
    // links need a privilege elsewhere; a hard link does not
    fs::hard_link(blob, link)
}
