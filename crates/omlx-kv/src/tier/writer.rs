//! Writing behind: a thread that puts blocks into a store while the engine goes on.
//!
//! The queue is bounded in bytes. Whoever offers a block never waits: there is room, or there is none and the block is counted
//! as skipped. Nothing is lost without a count: offered = queued + skipped, and queued = put + failed + withdrawn + what still waits.

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use omlx_blocks::BlockKey;

use super::{Block, BlockStore};
use crate::{Error, Result};

/// Handed to the store at once: what a disk writes in one piece.
const BATCH_BYTES: u64 = 2 << 20;
/// What a block takes in the queue besides its content.
const BLOCK_BYTES: u64 = 512;

/// The door to the thread. Dropping it ends the thread after the batch that it is writing; [`flush`](Self::flush) before, to
/// lose nothing.
#[derive(Debug)]
pub struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

/// What became of the blocks that were offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Wait now, those in the store's hands included.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// The most bytes that may wait.
    pub limit_bytes: u64,
    /// Found no room in the queue.
    pub skipped: u64,
    /// Were handed to the store, which counts what it took.
    pub put: u64,
    /// Were in hand when the store failed.
    pub failed: u64,
    /// Were taken back before they were written.
    pub withdrawn: u64,
}

impl WriterStats {
    /// Bytes that still may come to wait.
    fn room(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.waiting_bytes)
    }
}

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    /// Something was offered, or the end has come.
    work: Condvar,
    /// Something was put.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    blocks: VecDeque<Block>,
    ended: bool,
    /// What was taken back while the store had a batch in its hands; `None` while it has none.
    withdrawn: Option<HashSet<BlockKey>>,
    stats: WriterStats,
}

impl Writer {
    /// Starts the thread; at most `limit_bytes` wait for it.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(store: Arc<dyn BlockStore>, limit_bytes: u64) -> Result<Self> {
        let stats = WriterStats { limit_bytes, ..WriterStats::default() };
        let state = Mutex::new(State { stats, ..State::default() });
        let queue = Arc::new(Queue { state, work: Condvar::new(), done: Condvar::new() });
        let own = Arc::clone(&queue);
        let thread = thread::Builder::new().name("omlx-kv-write".to_owned()).spawn(move || own.run(&*store));
        Ok(Self { queue, thread: Some(thread.map_err(Error::Thread)?) })
    }

    /// Puts a block into the queue. `false`: there was no room, and it is counted as skipped.
    ///
    /// Parents come before children.
    pub fn offer(&self, block: Block) -> bool {
        let mut state = self.queue.lock();
        if cost(&block) > state.stats.room() {
            state.stats.skipped += 1;
            return false;
        }
        state.stats.waiting += 1;
        state.stats.waiting_bytes += cost(&block);
        state.blocks.push_back(block);
        drop(state);
        self.queue.work.notify_one();
        true
    }

    /// Bytes of content that a block may have to be queued now. Ask before a block is exported: one that stays in its pool can be
    /// offered later.
    pub fn room(&self) -> u64 {
        self.queue.lock().stats.room().saturating_sub(BLOCK_BYTES)
    }

    /// Takes back what is not to be trusted: what waits is not written, and what is being written is forgotten at once by the store.
    /// What was written before, the store has to [forget](BlockStore::forget).
    pub fn withdraw(&self, keys: &[BlockKey]) {
        let gone: HashSet<BlockKey> = keys.iter().copied().collect();
        let mut state = self.queue.lock();
        let State { blocks, stats, withdrawn, .. } = &mut *state;
        blocks.retain(|block| {
            let stays = !gone.contains(&block.label.key);
            if !stays {
                stats.waiting -= 1;
                stats.waiting_bytes -= cost(block);
                stats.withdrawn += 1;
            }
            stays
        });
        if let Some(withdrawn) = withdrawn {
            withdrawn.extend(gone);
        }
        drop(state);
        self.queue.done.notify_all();
    }

    /// Waits until all that was offered before is in the store; `false` when that takes longer than `most`.
    pub fn flush(&self, most: Duration) -> bool {
        let end = Instant::now() + most;
        let mut state = self.queue.lock();
        while state.stats.waiting > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.queue.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Waits until the store has taken a batch, if anything waits for it; `false` when that is not before `end`.
    pub fn wait_for_progress(&self, end: Instant) -> bool {
        let mut state = self.queue.lock();
        let before = state.stats.waiting;
        while state.stats.waiting > 0 && state.stats.waiting >= before {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.queue.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        before > 0
    }

    /// What became of the blocks so far.
    pub fn stats(&self) -> WriterStats {
        self.queue.lock().stats
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.lock().ended = true;
        self.queue.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes stored blocks had panicked");
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, store: &dyn BlockStore) {
        while let Some(batch) = self.next() {
            let bytes: u64 = batch.iter().map(cost).sum();
            let count = batch.len() as u64;
            let put = store.put(&batch); // the store has said in the log what is wrong
            let mut state = self.lock();
            if let Some(withdrawn) = state.withdrawn.take() {
                let keys = batch.iter().map(|block| block.label.key);
                let keys: Vec<BlockKey> = keys.filter(|key| withdrawn.contains(key)).collect();
                store.forget(&keys);
            }
            drop(batch);
            state.stats.waiting -= count;
            state.stats.waiting_bytes -= bytes;
            *if put.is_ok() { &mut state.stats.put } else { &mut state.stats.failed } += count;
            drop(state);
            self.done.notify_all();
        }
    }

    /// Waits for blocks and takes as many as are written at once. `None` at the end: what still waits is counted as skipped.
    fn next(&self) -> Option<Vec<Block>> {
        let mut state = self.lock();
        while state.blocks.is_empty() && !state.ended {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended {
            let left = mem::take(&mut state.blocks);
            let stats = &mut state.stats;
            stats.skipped += left.len() as u64;
            stats.waiting -= left.len() as u64;
            stats.waiting_bytes -= left.iter().map(cost).sum::<u64>();
            return None;
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(block) = state.blocks.front() {
            bytes += cost(block);
            if bytes > BATCH_BYTES && !batch.is_empty() {
                break;
            }
            batch.extend(state.blocks.pop_front());
        }
        state.withdrawn = Some(HashSet::new());
        Some(batch)
    }
}

fn cost(block: &Block) -> u64 {
    block.bytes.len() as u64 + BLOCK_BYTES
}
