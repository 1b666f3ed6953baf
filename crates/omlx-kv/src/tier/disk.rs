//! Blocks on disk: a log of segments.
//!
//! Blocks are appended to the newest segment in large writes. A full segment is closed with a list of its records and never
//! written again; the budget is kept by removing whole segments, least recently used first, after carrying over the few blocks
//! that are in use. Nothing is written in place but a mark on what is not to be trusted, so a process may be killed at any moment: what it had
//! begun to write is not found, everything before it is. At the start only the lists are read. Why not a crate: docs/decisions/0026.
//!
//! Two locks. `log` is held while something is written, `index` only for looking up and booking, so nobody who asks what is
//! here ever waits for the disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use omlx_blocks::BlockKey;

use self::index::Index;
use self::lock::{LOCK, Lock};
use self::log::Log;
use self::medium::{Folder, Untouched};
pub use self::medium::{Medium, MediumFile};
pub use self::open::{Found, Opened};
use super::{Block, BlockStore, End, Got, StoreStats, Wanted};
use crate::buffers::Buffers;
use crate::{Error, Result};
pub use survey::{Census, Verified};

mod format;
mod index;
mod lock;
mod log;
mod medium;
mod open;
mod pause;
mod read;
mod survey;

/// The smallest folder that works.
const LEAST: u64 = 256 << 10;

/// Buffers that are kept for the next reads: what a few threads read into while as much is being taken.
const BUFFERS: usize = 8;

/// Where blocks are kept on disk, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// The folder; made if it is not there. It may hold what other models and versions wrote: all of it counts, and the least
    /// recently used goes first, whoever wrote it.
    pub folder: PathBuf,
    /// The most bytes that the folder may take.
    pub budget_bytes: u64,
    /// How long nothing is written after the disk has refused a write. Twice as long after each further refusal, up to sixteen times.
    pub retry: Duration,
}

impl DiskConfig {
    /// A folder and its budget; after a refused write the next is tried half a minute later.
    pub fn new(folder: impl Into<PathBuf>, budget_bytes: u64) -> Self {
        Self { folder: folder.into(), budget_bytes, retry: Duration::from_secs(30) }
    }

    /// Bytes of a segment: some hundred of them in a large folder, so that giving one up costs little; in a small one enough that
    /// a write is a write.
    fn segment_bytes(&self) -> u64 {
        (self.budget_bytes / 64).clamp(32 << 10, 128 << 20)
    }
}

/// A store in a folder, for one process at a time. Dropping it closes the newest segment.
#[derive(Debug)]
pub struct DiskStore {
    shared: Shared,
    log: Mutex<Log>,
}

/// What both locks' owners need.
#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    medium: Arc<dyn Medium>,
    budget: u64,
    segment_bytes: u64,
    index: Mutex<Index>,
    stats: Mutex<StoreStats>,
    /// What is read into.
    buffers: Arc<Buffers>,
}

impl DiskStore {
    /// Opens a folder: reads the lists of its segments, mends what a killed process left, and keeps to the budget at once. Says what
    /// was found; its text is one line for a log.
    ///
    /// # Errors
    /// [`Error::FolderInUse`] when another process has the folder open; [`Error::FolderBudget`]; [`Error::Folder`] when it cannot
    /// be made or read. Damaged files are no error.
    pub fn open(config: &DiskConfig) -> Result<(Self, Opened)> {
        let failed = |what, source| Error::Folder { folder: config.folder.clone(), what, source };
        Folder::make(&config.folder).map_err(|source| failed("it cannot be made", source))?;
        let lock = Lock::take(&config.folder)?;
        Self::start(config, Arc::new(Folder::new(&config.folder)), Some(lock))
    }

    /// Opens a folder to look at it: nothing in it changes, whatever is done with the store.
    ///
    /// # Errors
    /// [`Error::FolderInUse`] while another process has it open; [`Error::Folder`] when it cannot be read.
    pub fn look(folder: &Path) -> Result<(Self, Opened)> {
        let lock = Lock::look(folder)?;
        Self::start(&DiskConfig::new(folder, u64::MAX), Arc::new(Untouched(Folder::new(folder))), lock)
    }

    /// A store over something that behaves like a folder, for tests. Nothing is locked.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn over(config: &DiskConfig, medium: Arc<dyn Medium>) -> Result<(Self, Opened)> {
        Self::start(config, medium, None)
    }

    /// The plain folder that [`open`](Self::open) uses, to stand behind a medium that fails on purpose.
    pub fn plain(folder: &Path) -> Arc<dyn Medium> {
        Arc::new(Folder::new(folder))
    }

    fn start(config: &DiskConfig, medium: Arc<dyn Medium>, lock: Option<Lock>) -> Result<(Self, Opened)> {
        let budget_bytes = config.budget_bytes;
        if budget_bytes < LEAST {
            return Err(Error::FolderBudget { budget_bytes, least_bytes: LEAST });
        }
        let shared = Shared {
            folder: config.folder.clone(),
            medium,
            budget: budget_bytes,
            segment_bytes: config.segment_bytes(),
            index: Mutex::default(),
            stats: Mutex::new(StoreStats { budget_bytes, ..StoreStats::default() }),
            buffers: Buffers::new(read::READ_BYTES, BUFFERS),
        };
        let (opened, next) = open::load(&shared)?;
        let mut log = Log::new(next, config.retry, lock);
        let source = log.shrink(&shared);
        source.map_err(|source| Error::Folder {
            folder: shared.folder.clone(),
            what: "its oldest file stays",
            source,
        })?;
        Ok((Self { shared, log: Mutex::new(log) }, opened))
    }

    /// Removes every block, those of other models and versions too.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn clear(&self) -> Result<()> {
        let cleared = self.log().clear(&self.shared);
        cleared.map_err(|source| self.shared.failed("a file stays", source))
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stats(&self) -> MutexGuard<'_, StoreStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, what: &'static str, source: std::io::Error) -> Error {
        Error::Folder { folder: self.folder.clone(), what, source }
    }
}

impl BlockStore for DiskStore {
    fn get(&self, wanted: &[Wanted]) -> Got {
        let got = read::get(&self.shared, wanted);
        let mut stats = self.shared.stats();
        stats.hits += got.blocks.len() as u64;
        match &got.end {
            End::All => {}
            End::Missing => stats.misses += 1,
            End::Bad => stats.bad += 1,
            End::Failed(_) => stats.read_errors += 1,
        }
        let StoreStats { bad, read_errors, .. } = *stats;
        drop(stats);
        let folder = self.shared.folder.display();
        match &got.end {
            End::Bad if is_round(bad) => {
                tracing::warn!(%folder, damaged = bad, "stored blocks are damaged; they are computed and written again");
            }
            End::Failed(error) if is_round(read_errors) => {
                tracing::warn!(%folder, %error, failed = read_errors, "stored blocks cannot be read; they are computed again");
            }
            _ => {}
        }
        got
    }

    fn put(&self, blocks: &[Block]) -> Result<()> {
        self.log().put(&self.shared, blocks).map_err(|source| self.shared.failed("it cannot be written", source))
    }

    /// Here too nobody waits for a disk, unless a block really is here: what is not to be trusted must not be found by the next start
    /// either, whatever becomes of this process.
    fn forget(&self, keys: &[BlockKey]) {
        let found: Vec<_> = {
            let mut index = self.shared.index();
            let found = keys.iter().filter_map(|key| Some((*key, index.find(key)?))).collect();
            keys.iter().for_each(|key| index.remove(key));
            found
        };
        for (key, place) in found {
            if let Err(error) = read::spoil(&self.shared, &key, place) {
                let folder = self.shared.folder.display();
                tracing::warn!(%folder, %error, "a stored block that is not to be trusted stays on disk until the next start");
            }
        }
    }

    fn contains(&self, key: &BlockKey) -> bool {
        self.shared.index().find(key).is_some()
    }

    fn leading(&self, keys: &[BlockKey]) -> usize {
        let index = self.shared.index();
        keys.iter().take_while(|key| index.find(key).is_some()).count()
    }

    fn touch(&self, keys: &[BlockKey]) {
        let mut index = self.shared.index();
        let now = index.tick();
        for key in keys {
            index.touch(key, now);
        }
    }

    fn stats(&self) -> StoreStats {
        let stats = *self.shared.stats();
        let index = self.shared.index();
        StoreStats { blocks: index.len() as u64, bytes: index.bytes(), ..stats }
    }

    fn census(&self) -> Census {
        survey::census(&self.shared)
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        let log = self.log.get_mut().unwrap_or_else(PoisonError::into_inner);
        log.close(&self.shared);
    }
}

/// Whether so many faults of a kind are worth a line of the log: the first, the tenth, the hundredth. All are counted.
fn is_round(count: u64) -> bool {
    let mut left = count;
    while left >= 10 && left.is_multiple_of(10) {
        left /= 10;
    }
    left == 1
}
