//! All slower places of one process, for the engines of all its models: memory of the host, disk, and the threads between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use omlx_blocks::BlockKey;

use super::layered::Layered;
use super::{
    Block, BlockStore, Census, DiskConfig, DiskStore, Fetch, Opened, RamStore, Reader, StoreStats, Wanted, Writer,
    WriterStats,
};
use crate::Result;

/// How fast blocks come out of the memory of the host and into a pool, in bytes a second: one thread copies them.
const RAM_RATE: f64 = 3e9;

/// What slower places there are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiersConfig {
    /// The most bytes in the memory of the host; 0 for none.
    pub ram_bytes: u64,
    /// The place on disk, if there is to be one.
    pub disk: Option<DiskConfig>,
    /// The most bytes that wait to be written.
    pub queue_bytes: u64,
    /// How many reads are in flight.
    pub readers: usize,
    /// Whether everything that is here is brought back, also what would be computed sooner: for whoever would rather wait for a disk
    /// than have the processor work, and for tests, which cannot know which is quicker.
    pub eager: bool,
}

impl TiersConfig {
    /// So many bytes of memory and no disk; with one, 64 MiB may wait to be written and four reads are in flight.
    pub fn new(ram_bytes: u64) -> Self {
        Self { ram_bytes, disk: None, queue_bytes: 64 << 20, readers: 4, eager: false }
    }
}

/// The slower places, open. Dropping it closes them; what still waits to be written is lost, unless it was
/// [flushed](Self::flush).
#[derive(Debug)]
pub struct Tiers {
    // Dropped in this order: threads before what they use.
    writer: Option<Writer>,
    reader: Reader,
    both: Arc<Layered>,
    ram: Option<Arc<RamStore>>,
    disk: Option<Arc<dyn BlockStore>>,
    restored: AtomicU64,
    restored_bytes: AtomicU64,
    declined: AtomicU64,
    unwritten: AtomicU64,
    /// The last reading of the memory guard that was heeded.
    relieved: AtomicU64,
    /// The process is about to end.
    closing: AtomicBool,
    eager: bool,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// In the memory of the host.
    Ram,
    /// On disk.
    Disk,
}

/// What all places hold and have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TiersStats {
    /// The memory of the host.
    pub ram: Option<StoreStats>,
    /// The disk.
    pub disk: Option<StoreStats>,
    /// What waits for the disk.
    pub writer: Option<WriterStats>,
    /// Blocks that came back into a pool.
    pub restored: u64,
    /// Their bytes.
    pub restored_bytes: u64,
    /// Prefixes that were computed although they are here, since that was quicker.
    pub declined: u64,
    /// Blocks that lost their place in the pool before there was room to write them.
    pub unwritten: u64,
}

impl Tiers {
    /// Opens what is configured. With a disk it says what was found there.
    ///
    /// # Errors
    /// When the folder cannot be used, or there are no threads to be had.
    pub fn open(config: &TiersConfig) -> Result<(Self, Option<Opened>)> {
        let (disk, opened) = match &config.disk {
            Some(disk) => {
                let (store, opened) = DiskStore::open(disk)?;
                let store: Arc<dyn BlockStore> = Arc::new(store);
                (Some(store), Some(opened))
            }
            None => (None, None),
        };
        Ok((Self::over(config, disk)?, opened))
    }

    /// The same over any place instead of a folder.
    ///
    /// # Errors
    /// When there are no threads to be had.
    pub fn over(config: &TiersConfig, disk: Option<Arc<dyn BlockStore>>) -> Result<Self> {
        let ram = (config.ram_bytes > 0).then(|| Arc::new(RamStore::new(config.ram_bytes)));
        let both = Arc::new(Layered::new(ram.clone(), disk.clone()));
        let writer = disk.clone().map(|disk| Writer::start(disk, config.queue_bytes)).transpose()?;
        let reader = Reader::start(Arc::clone(&both) as Arc<dyn BlockStore>, config.readers)?;
        Ok(Self {
            writer,
            reader,
            both,
            ram,
            disk,
            restored: AtomicU64::new(0),
            restored_bytes: AtomicU64::new(0),
            declined: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            relieved: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            eager: config.eager,
        })
    }

    /// Where a block is, the fastest place first.
    pub fn find(&self, key: &BlockKey) -> Option<Lies> {
        if self.in_ram(key) {
            return Some(Lies::Ram);
        }
        self.on_disk(key).then_some(Lies::Disk)
    }

    /// Whether a block is in the memory of the host.
    pub fn in_ram(&self, key: &BlockKey) -> bool {
        self.ram.as_ref().is_some_and(|ram| ram.contains(key))
    }

    /// Whether a block is on disk.
    pub fn on_disk(&self, key: &BlockKey) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.contains(key))
    }

    /// Whether there is a place in the memory of the host.
    pub fn has_ram(&self) -> bool {
        self.ram.is_some() && !self.closing.load(Ordering::Relaxed)
    }

    /// Whether there is a place on disk.
    pub fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Counts as use, wherever they are.
    pub fn touch(&self, keys: &[BlockKey]) {
        self.both.touch(keys);
    }

    /// Begins to fetch blocks, as [`Reader::fetch`] says.
    pub fn fetch(&self, wanted: Vec<Wanted>, wake: impl Fn() + Send + Sync + 'static) -> Fetch {
        self.reader.fetch(wanted, wake)
    }

    /// About how long it takes until so many bytes from memory and so many from disk are back in a pool.
    pub fn estimate(&self, ram_bytes: u64, disk_bytes: u64) -> Duration {
        let copying = (ram_bytes + disk_bytes) as f64 / RAM_RATE;
        let seconds = copying + self.both.disk_seconds(disk_bytes);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Whether everything is brought back, whatever the [estimate](Self::estimate).
    pub fn is_eager(&self) -> bool {
        self.eager
    }

    /// A prefix is computed although it is here: the [estimate](Self::estimate) was too long.
    pub fn declined(&self) {
        self.declined.fetch_add(1, Ordering::Relaxed);
        self.both.declined();
    }

    /// A block has come back.
    pub fn restored(&self, bytes: u64) {
        self.restored.fetch_add(1, Ordering::Relaxed);
        self.restored_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Blocks have gone that should have been written.
    pub fn unwritten(&self, blocks: u64) {
        self.unwritten.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Puts blocks into the memory of the host, parents before children, where there is such a place.
    pub fn stash(&self, blocks: &[Block]) {
        if let Some(ram) = &self.ram {
            ram.put(blocks).expect("memory refuses nothing with an error");
        }
    }

    /// Bytes of a block that may be [written](Self::write) now.
    pub fn room(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::room)
    }

    /// Waits until one more batch was written; `false` at `end`.
    pub fn wait_for_room(&self, end: Instant) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.wait_for_progress(end))
    }

    /// Has a block written; `false` if there is no room for it in the queue, or no disk.
    pub fn write(&self, block: Block) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.offer(block))
    }

    /// Makes blocks impossible to find, those that wait to be written too.
    pub fn forget(&self, keys: &[BlockKey]) {
        if let Some(writer) = &self.writer {
            writer.withdraw(keys);
        }
        self.both.forget(keys);
    }

    /// Waits until all that was offered is written; `false` when that takes longer than `most`.
    pub fn flush(&self, most: Duration) -> bool {
        self.writer.as_ref().is_none_or(|writer| writer.flush(most))
    }

    /// The most bytes in the memory of the host from now on; what is above goes at once.
    pub fn set_ram_budget(&self, bytes: u64) {
        if let Some(ram) = &self.ram {
            ram.set_budget(bytes);
        }
    }

    /// Memory is short, as the guard's reading of this number says: half of what is in the memory of the host goes, or all of it. Once
    /// a reading, however many engines say so. Answers how many bytes that were.
    pub fn relieve(&self, number: u64, all: bool) -> u64 {
        if self.relieved.swap(number, Ordering::Relaxed) == number {
            return 0;
        }
        self.shrink(if all { 0 } else { 2 })
    }

    /// Leaves one part in so many of what is in the memory of the host, 0 for nothing, and answers how many bytes have gone.
    pub fn shrink(&self, part: u64) -> u64 {
        self.ram.as_ref().map_or(0, |ram| ram.shrink(ram.stats().bytes.checked_div(part).unwrap_or(0)))
    }

    /// The process is about to end: what is in the memory of the host goes, and nothing new is put there.
    pub fn close_ram(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.shrink(0);
    }

    /// Whose blocks are on disk, where there is one.
    pub fn census(&self) -> Option<Census> {
        self.disk.as_ref().map(|disk| disk.census())
    }

    /// What all places hold and have done.
    pub fn stats(&self) -> TiersStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TiersStats {
            ram: self.ram.as_ref().map(|ram| ram.stats()),
            disk: self.disk.as_ref().map(|disk| disk.stats()),
            writer: self.writer.as_ref().map(Writer::stats),
            restored: count(&self.restored),
            restored_bytes: count(&self.restored_bytes),
            declined: count(&self.declined),
            unwritten: count(&self.unwritten),
        }
    }
}
