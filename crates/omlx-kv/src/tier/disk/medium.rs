//! What a store asks of a folder: the one door to the file system, so that a test can stand in it.
//!
//! Files are named by what stands after the folder. They are opened for each call: calls move megabytes, and a store of
//! thousands of segments would need more open files than a process may have.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediumFile {
    /// Its name in the folder.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// When it was last written or used.
    pub modified: SystemTime,
}

/// A folder of files.
pub trait Medium: Send + Sync + fmt::Debug {
    /// All files.
    ///
    /// # Errors
    /// When the folder cannot be read.
    fn list(&self) -> io::Result<Vec<MediumFile>>;

    /// Makes an empty file; one of that name must not be there.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, name: &str) -> io::Result<()>;

    /// Writes all of `bytes` from `at` on.
    ///
    /// # Errors
    /// What the system says; part of it may have been written.
    fn write(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills `bytes` from what stands from `at` on.
    ///
    /// # Errors
    /// What the system says, or [`io::ErrorKind::UnexpectedEof`] when the file is shorter.
    fn read(&self, name: &str, at: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Makes a file exactly `len` long.
    ///
    /// # Errors
    /// What the system says.
    fn cut(&self, name: &str, len: u64) -> io::Result<()>;

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&self, name: &str) -> io::Result<()>;

    /// Sets when a file was last used.
    ///
    /// # Errors
    /// What the system says.
    fn set_modified(&self, name: &str, to: SystemTime) -> io::Result<()>;

    /// Takes a file away.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A folder of the file system.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Makes it, with all above it, where it is not there. What was asked can be read from blocks: nobody else may look into it.
    pub(crate) fn make(path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn writable(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.path.join(name))
    }
}

impl Medium for Folder {
    fn list(&self) -> io::Result<Vec<MediumFile>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let meta = match entry.metadata() {
                // It was taken away while we looked: that is no fault of the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                meta => meta?,
            };
            // Neither ours nor of any size, and to open a pipe is to wait for its other end.
            if !meta.is_file() {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push(MediumFile { name, len: meta.len(), modified });
        }
        Ok(files)
    }

    fn create(&self, name: &str) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path.join(name)).map(drop)
    }

    fn write(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable(name)?.write_all_at(bytes, at)
    }

    fn read(&self, name: &str, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        File::open(self.path.join(name))?.read_exact_at(bytes, at)
    }

    fn cut(&self, name: &str, len: u64) -> io::Result<()> {
        self.writable(name)?.set_len(len)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.writable(name)?.sync_data()
    }

    fn set_modified(&self, name: &str, to: SystemTime) -> io::Result<()> {
        self.writable(name)?.set_modified(to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }
}

/// A folder that is only looked at: what would be changed is said to be, and stays.
#[derive(Debug)]
pub(crate) struct Untouched(pub(crate) Folder);

impl Medium for Untouched {
    fn list(&self) -> io::Result<Vec<MediumFile>> {
        self.0.list()
    }

    fn read(&self, name: &str, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read(name, at, bytes)
    }

    fn create(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _: &str, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn cut(&self, _: &str, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn set_modified(&self, _: &str, _: SystemTime) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}
