//! Disks and stores that fail as they are told to, for tests.
//!
//! A [`FaultyMedium`] stands between a [`DiskStore`](super::DiskStore) and its folder, so that everything the store does about a
//! refused write is really done. A [`FaultyStore`] stands before any store.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use omlx_blocks::BlockKey;

use super::{Block, BlockStore, End, Got, Medium, MediumFile, StoreStats, Wanted};
use crate::{Error, Result};

/// What is to go wrong from now on. Everything is off at first, and may be changed at any time by whoever has a clone of the `Arc`.
#[derive(Debug, Default)]
pub struct Faults {
    /// The system's number of the error that every write gives; 0 for none. 28 is a full disk, 5 a broken one.
    pub write: AtomicI32,
    /// The same for reads.
    pub read: AtomicI32,
    /// Bytes that may still be written before `write` holds; a write in the middle of which they end is written in part.
    pub write_after: AtomicU64,
    /// How long every read and write takes besides.
    pub slow_micros: AtomicU64,
    /// Called after every change of a file.
    watch: Watch,
}

#[derive(Default)]
struct Watch(Mutex<Option<Box<dyn FnMut() + Send>>>);

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl Faults {
    /// Calls `look` after every change of a file: to see that something holds at every moment.
    pub fn watch(&self, look: impl FnMut() + Send + 'static) {
        *self.watch.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(look));
    }

    fn changed(&self) {
        if let Some(look) = &mut *self.watch.0.lock().unwrap_or_else(PoisonError::into_inner) {
            look();
        }
    }

    fn slow(&self) {
        let micros = self.slow_micros.load(Ordering::SeqCst);
        if micros > 0 {
            std::thread::sleep(Duration::from_micros(micros));
        }
    }

    /// The error of a read, if there is to be one.
    fn reading(&self) -> io::Result<()> {
        self.slow();
        fault(&self.read)
    }

    /// How many of `len` bytes are written, and the error after them, if there is to be one.
    fn writing(&self, len: usize) -> (usize, io::Result<()>) {
        self.slow();
        if self.write.load(Ordering::SeqCst) == 0 {
            return (len, Ok(()));
        }
        let left = self.write_after.load(Ordering::SeqCst);
        let written = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        self.write_after.store(left - written as u64, Ordering::SeqCst);
        if written == len { (len, Ok(())) } else { (written, fault(&self.write)) }
    }
}

fn fault(number: &AtomicI32) -> io::Result<()> {
    match number.load(Ordering::SeqCst) {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// A folder that fails as it is told to.
#[derive(Debug)]
pub struct FaultyMedium {
    inner: Arc<dyn Medium>,
    faults: Arc<Faults>,
}

impl FaultyMedium {
    /// Stands before `inner`.
    pub fn new(inner: Arc<dyn Medium>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }
}

impl Medium for FaultyMedium {
    fn list(&self) -> io::Result<Vec<MediumFile>> {
        self.inner.list()
    }

    fn create(&self, name: &str) -> io::Result<()> {
        self.faults.writing(1).1?;
        self.inner.create(name)?;
        self.faults.changed();
        Ok(())
    }

    fn write(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (len, error) = self.faults.writing(bytes.len());
        if len > 0 {
            self.inner.write(name, at, &bytes[..len])?;
            self.faults.changed();
        }
        error
    }

    fn read(&self, name: &str, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.faults.reading()?;
        self.inner.read(name, at, bytes)
    }

    fn cut(&self, name: &str, len: u64) -> io::Result<()> {
        self.inner.cut(name, len)?;
        self.faults.changed();
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.faults.writing(1).1?;
        self.inner.sync(name)
    }

    fn set_modified(&self, name: &str, to: SystemTime) -> io::Result<()> {
        self.inner.set_modified(name, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)?;
        self.faults.changed();
        Ok(())
    }
}

/// A store that fails as it is told to.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn BlockStore>,
    faults: Arc<Faults>,
}

impl FaultyStore {
    /// Stands before `inner`.
    pub fn new(inner: Arc<dyn BlockStore>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }
}

impl BlockStore for FaultyStore {
    fn get(&self, wanted: &[Wanted]) -> Got {
        match self.faults.reading() {
            Ok(()) => self.inner.get(wanted),
            Err(error) => Got { blocks: Vec::new(), end: End::Failed(error) },
        }
    }

    fn put(&self, blocks: &[Block]) -> Result<()> {
        let (_, error) = self.faults.writing(blocks.len());
        error.map_err(|source| Error::Folder { folder: "faulty".into(), what: "it was told to fail", source })?;
        self.inner.put(blocks)
    }

    fn forget(&self, keys: &[BlockKey]) {
        self.inner.forget(keys);
    }

    fn contains(&self, key: &BlockKey) -> bool {
        self.inner.contains(key)
    }

    fn leading(&self, keys: &[BlockKey]) -> usize {
        self.inner.leading(keys)
    }

    fn touch(&self, keys: &[BlockKey]) {
        self.inner.touch(keys);
    }

    fn stats(&self) -> StoreStats {
        self.inner.stats()
    }
}
