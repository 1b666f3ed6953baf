//! Who uses a folder: one process at a time, told by a lock on a file in it.
//!
//! The lock goes with the file, so a killed process leaves none behind. It goes with *that* file, too: who deletes the folder and
//! makes it anew lets another process in, so whoever writes has to ask whether the lock is still the folder's.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The file.
pub(super) const LOCK: &str = "lock";
/// What its holder writes into it, before its number.
const HOLDER: &str = "process ";
/// Of it so many bytes are read.
const MOST_WORDS: u64 = 64;

/// A folder that is ours.
#[derive(Debug)]
pub(super) struct Lock {
    folder: PathBuf,
    file: File,
}

impl Lock {
    /// Takes a folder for this process.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let failed = |what, source| Error::Folder { folder: folder.to_owned(), what, source };
        let path = folder.join(LOCK);
        plain(&path).map_err(|source| failed("it has a `lock` that is no plain file", source))?;
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = opened.map_err(|source| failed("its lock cannot be made", source))?;
        let mut words = String::new();
        let known = (&mut file).take(MOST_WORDS).read_to_string(&mut words).is_ok();
        if !known || !(words.is_empty() || words.starts_with(HOLDER)) {
            return Err(failed("its file `lock` is not ours", io::ErrorKind::AlreadyExists.into()));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(folder, &words)),
            Err(TryLockError::Error(source)) => return Err(failed("it cannot be locked", source)),
        }
        let words = format!("{HOLDER}{}\n", std::process::id());
        let written =
            file.set_len(0).and_then(|()| io::Seek::rewind(&mut file)).and_then(|()| file.write_all(words.as_bytes()));
        match written {
            Ok(()) => {}
            // A full disk has room for no name, and needs none.
            Err(error) => tracing::debug!(%error, "the lock of a cache folder has no name in it"),
        }
        Ok(Self { folder: folder.to_owned(), file })
    }

    /// Keeps a folder from changing while it is looked at. Nothing is written: where there is no lock, or none that may be read, the look
    /// goes without.
    pub(super) fn look(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(LOCK);
        let Ok(mut file) = plain(&path).and_then(|()| File::open(&path)) else { return Ok(None) };
        if let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
            let mut words = String::new();
            // Who it is is a kindness.
            let _ = (&mut file).take(MOST_WORDS).read_to_string(&mut words);
            return Err(in_use(folder, &words));
        }
        Ok(Some(Self { folder: folder.to_owned(), file }))
    }

    /// Whether the file that is locked is still the one in the folder.
    pub(super) fn holds(&self) -> bool {
        let (there, ours) = (self.folder.join(LOCK).symlink_metadata(), self.file.metadata());
        matches!((there, ours), (Ok(there), Ok(ours)) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
    }

    /// The folder once more, whatever has become of it.
    pub(super) fn again(&self) -> Result<Self> {
        Self::take(&self.folder)
    }
}

/// A link may lead to anything, and whoever opens a pipe waits for its other end.
fn plain(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(meta) if !meta.is_file() => Err(io::ErrorKind::AlreadyExists.into()),
        _ => Ok(()),
    }
}

/// Somebody has it: by what stands in the lock, which may be nothing yet.
fn in_use(folder: &Path, words: &str) -> Error {
    let holder = if words.starts_with(HOLDER) { words.trim() } else { "another process" };
    Error::FolderInUse { folder: folder.to_owned(), holder: holder.to_owned() }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Said, not left to the closing of the file: a process that is just being started has a copy of it for a moment, and the
        // folder would still be in use for whoever opens it next.
        if let Err(error) = self.file.unlock() {
            tracing::debug!(%error, "the lock of a cache folder goes with its file");
        }
    }
}
