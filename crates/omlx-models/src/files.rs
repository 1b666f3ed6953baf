//! Opening and reading a model's files: regular ones only, and none beyond a limit.
//!
//! A pipe or a device in a model folder would hold whoever reads it for ever, so it is refused before it is opened; links
//! to regular files, as in a hub's cache, are followed.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::{Error, Result};

/// The longest config.json that is read; real ones have a few kB.
pub(crate) const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// The longest index that is read; the largest models have about 10 MB.
pub(crate) const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Opens a regular file and says how long it is.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
    let io = |source| Error::Io { file: path.to_owned(), source };
    // Before opening: opening a pipe waits for who writes to it.
    let found = std::fs::metadata(path).map_err(io)?;
    if !found.is_file() {
        return Err(Error::NotAFile { file: path.to_owned() });
    }
    Ok((File::open(path).map_err(io)?, found.len()))
}

/// Reads a whole JSON file, without the byte order mark that some editors put before it.
pub(crate) fn read_json(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let (file, bytes) = open(path)?;
    let too_long = || Error::TooLong { file: path.to_owned(), limit };
    if bytes > limit {
        return Err(too_long());
    }
    let mut read = Vec::with_capacity(bytes as usize);
    file.take(limit + 1).read_to_end(&mut read).map_err(|source| Error::Io { file: path.to_owned(), source })?;
    if read.len() as u64 > limit {
        return Err(too_long());
    }
    if read.starts_with(b"\xef\xbb\xbf") {
        read.drain(..3);
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
