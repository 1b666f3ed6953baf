//! A store that takes nothing before it is let, and calls whoever wants to know of each read.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use omlx_kv::tier::{Block, BlockStore, Got, RamStore, StoreStats, Wanted};
use omlx_kv::{BlockKey, Result};

#[derive(Debug, Default)]
struct Door {
    /// Batches that may still pass.
    allowed: usize,
    /// Batches that have come.
    arrived: usize,
}

/// Memory behind a door.
#[derive(Debug)]
pub(crate) struct Gate {
    inner: RamStore,
    door: Mutex<Door>,
    changed: Condvar,
}

impl Gate {
    /// A closed one.
    pub(crate) fn closed() -> Arc<Self> {
        Arc::new(Self { inner: RamStore::new(1 << 30), door: Mutex::default(), changed: Condvar::new() })
    }

    /// Lets so many more batches pass.
    pub(crate) fn allow(&self, batches: usize) {
        self.door.lock().unwrap().allowed += batches;
        self.changed.notify_all();
    }

    /// Waits until so many batches in all have come to the door.
    pub(crate) fn wait_for(&self, batches: usize) {
        let door = self.door.lock().unwrap();
        let limit = Duration::from_secs(20);
        let (door, late) = self.changed.wait_timeout_while(door, limit, |door| door.arrived < batches).unwrap();
        assert!(!late.timed_out(), "nobody comes: {door:?}");
    }
}

impl BlockStore for Gate {
    fn get(&self, wanted: &[Wanted]) -> Got {
        self.inner.get(wanted)
    }

    fn put(&self, blocks: &[Block]) -> Result<()> {
        let mut door = self.door.lock().unwrap();
        door.arrived += 1;
        self.changed.notify_all();
        door = self.changed.wait_while(door, |door| door.allowed == 0).unwrap();
        door.allowed -= 1;
        drop(door);
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
