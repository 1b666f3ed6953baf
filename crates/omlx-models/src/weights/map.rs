//! A file seen as bytes, without reading it into memory.

use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::{Error, Result, files};

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) path: PathBuf,
    map: Mmap,
}

impl Mapped {
    /// Maps a whole file; an empty one is an error of the caller's format.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let io = |source| Error::Io { file: path.to_owned(), source };
        let (file, _) = files::open(path)?;
        // SAFETY: the map is only read, and lives no longer than the load. Cutting the file meanwhile would end the process
        // with a bus error, as it does in every program that maps weights; nobody writes to a model in place.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        ahead(&map);
        Ok(Self { path: path.to_owned(), map })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// Most bytes of a file that are asked for at once: more would push out of the system's cache what is not yet used.
#[cfg(unix)]
const AHEAD_BYTES: usize = 4 << 30;

/// Has the system read the file in large pieces from now on. Left alone it reads as bytes are touched, and loading touches
/// them in several places at the same time, which looks like no order at all.
#[cfg(unix)]
fn ahead(map: &Mmap) {
    // A hint: without it the load is slower and as right.
    let _ = map.advise_range(memmap2::Advice::WillNeed, 0, map.len().min(AHEAD_BYTES));
}

#[cfg(not(unix))]
fn ahead(_: &Mmap) {}

/// Little-endian 16-bit words.
pub(crate) fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u16> + '_ {
    bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]))
}

/// Little-endian f32.
pub(crate) fn floats(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> + '_ {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}
