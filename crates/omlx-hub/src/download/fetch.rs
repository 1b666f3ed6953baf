//! One file: from the byte reached, checked, renamed, and by one writer at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::Body;
use ureq::http::{Response, header};

use super::client::Client;
use super::listing::{self, hex};
use crate::error::{Error, Result};

/// The ending of a file that is not all there; other tools use the same.
pub(super) const PARTIAL: &str = "incomplete";
/// The ending of a lock file.
const LOCK: &str = "lock";
/// How much is read at a time, and so how often progress is told.
const CHUNK_BYTES: usize = 256 << 10;
/// How long to wait before a broken transfer is taken up again, times the number of tries.
const PAUSE: Duration = Duration::from_millis(250);

/// A file to be fetched.
pub(super) struct Blob<'a> {
    pub(super) file: &'a listing::File,
    /// Where it goes.
    pub(super) path: PathBuf,
    pub(super) url: String,
}

/// Called with the bytes that are here; an error stops the transfer.
type Report<'a> = dyn FnMut(u64) -> Result<()> + 'a;

/// Fetches a file unless it is here.
pub(super) fn fetch(client: &Client, blob: &Blob<'_>, report: &mut Report<'_>) -> Result<()> {
    let _lock = lock(&blob.path).map_err(|e| match e {
        Error::Busy { .. } => Error::Busy { file: blob.file.name.clone() },
        other => other,
    })?;
    if blob.path.is_file() {
        return report(blob.file.bytes);
    }
    let partial = blob.path.with_extension(PARTIAL);
    // a file that came wrong is fetched once more from its first byte; wrong twice is an error
    let mut arrived = arrive(client, blob, &partial, report);
    if is_wrong(&arrived) {
        remove(&partial)?;
        arrived = arrive(client, blob, &partial, report);
    }
    if is_wrong(&arrived) {
        remove(&partial)?;
    }
    arrived?;
    fs::rename(&partial, &blob.path).map_err(Error::io(&blob.path))
}

/// Brings the partial file to its full length and compares it with what was announced.
fn arrive(client: &Client, blob: &Blob<'_>, partial: &Path, report: &mut Report<'_>) -> Result<()> {
    transfer(client, blob, partial, report)?;
    verify(blob, partial)
}

/// Whether all has come, but not what was announced.
fn is_wrong(arrived: &Result<()>) -> bool {
    matches!(arrived, Err(Error::Size { .. } | Error::Checksum { .. }))
}

/// Takes the lock of a blob, which lasts as long as the file that is returned.
pub(super) fn lock(blob: &Path) -> Result<File> {
    let path = blob.with_extension(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(Error::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy { file: path.display().to_string() }),
        Err(TryLockError::Error(e)) => Err(Error::io(&path)(e)),
    }
}

fn remove(partial: &Path) -> Result<()> {
    match fs::remove_file(partial) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(partial)(e)),
        _ => Ok(()),
    }
}

/// Brings the partial file to its full length, taking a broken transfer up again.
fn transfer(client: &Client, blob: &Blob<'_>, partial: &Path, report: &mut Report<'_>) -> Result<()> {
    let mut tries = 0;
    let mut reached = length(partial)?;
    loop {
        let broken = match attempt(client, blob, partial, report) {
            Err(e @ Error::Network { .. }) => e,
            Err(e @ Error::Status { status: 429 | 500.., .. }) => e,
            done => return done,
        };
        let now = length(partial)?;
        tries = if now > reached { 1 } else { tries + 1 };
        reached = now;
        if tries > client.retries {
            return Err(broken);
        }
        thread::sleep(PAUSE * tries);
    }
}

fn length(partial: &Path) -> Result<u64> {
    match fs::metadata(partial) {
        Ok(m) => Ok(m.len()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(e) => Err(Error::io(partial)(e)),
    }
}

/// One request, from the byte reached on.
fn attempt(client: &Client, blob: &Blob<'_>, partial: &Path, report: &mut Report<'_>) -> Result<()> {
    let io = Error::io(partial);
    let file = OpenOptions::new().create(true).append(true).open(partial).map_err(io)?;
    let expected = blob.file.bytes;
    let mut here = length(partial)?;
    if here > expected {
        file.set_len(0).map_err(Error::io(partial))?;
        here = 0;
    }
    if here == expected && expected > 0 {
        return report(here);
    }
    let answer = client.get(&blob.url, here)?;
    let answer = match begins_at(&answer) {
        Some(at) if at == here => answer,
        // a server that ignores `Range`, or answers 416 or another range: from the first byte
        at => {
            file.set_len(0).map_err(Error::io(partial))?;
            here = 0;
            if at == Some(0) { answer } else { client.get(&blob.url, 0)? }
        }
    };
    if begins_at(&answer) != Some(0) && here == 0 {
        return Err(Error::Status { url: blob.url.clone(), status: answer.status().as_u16() });
    }
    receive(answer, blob, Growing { file, path: partial, here }, report)
}

/// The byte an answer's body begins at; `None` if it has none of the file's.
fn begins_at(answer: &Response<Body>) -> Option<u64> {
    match answer.status().as_u16() {
        200 => Some(0),
        206 => {
            let range = answer.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
            range.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
        }
        _ => None,
    }
}

/// A partial file and its length.
struct Growing<'a> {
    file: File,
    path: &'a Path,
    here: u64,
}

/// Appends a body; never more than the file's size, whatever the server sends.
fn receive(answer: Response<Body>, blob: &Blob<'_>, mut to: Growing<'_>, report: &mut Report<'_>) -> Result<()> {
    let mut body = answer.into_body().into_reader();
    let mut chunk = vec![0; CHUNK_BYTES];
    report(to.here)?;
    loop {
        let n =
            body.read(&mut chunk).map_err(|e| Error::Network { url: blob.url.clone(), source: Box::new(e.into()) })?;
        if n == 0 && to.here < blob.file.bytes {
            let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "the body ended early");
            return Err(Error::Network { url: blob.url.clone(), source: Box::new(cut.into()) });
        }
        if n == 0 {
            return to.file.sync_all().map_err(Error::io(to.path));
        }
        if to.here + n as u64 > blob.file.bytes {
            let found = to.here + n as u64;
            return Err(Error::Size { file: blob.file.name.clone(), expected: blob.file.bytes, found });
        }
        to.file.write_all(&chunk[..n]).map_err(Error::io(to.path))?;
        to.here += n as u64;
        report(to.here)?;
    }
}

/// Compares size and sum with what the hub announced.
fn verify(blob: &Blob<'_>, partial: &Path) -> Result<()> {
    let found = length(partial)?;
    if found != blob.file.bytes {
        return Err(Error::Size { file: blob.file.name.clone(), expected: blob.file.bytes, found });
    }
    let Some(expected) = &blob.file.sha256 else {
        return Ok(());
    };
    let mut file = File::open(partial).map_err(Error::io(partial))?;
    let mut sum = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk).map_err(Error::io(partial))? {
            0 => break,
            n => sum.update(&chunk[..n]),
        }
    }
    let found = hex(&sum.finalize());
    if found == *expected {
        Ok(())
    } else {
        Err(Error::Checksum { file: blob.file.name.clone(), expected: expected.clone(), found })
    }
}
