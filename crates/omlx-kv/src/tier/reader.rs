//! Reading ahead: threads that fetch chains from a store, several pieces at once, and hand them over in order.
//!
//! A chain is cut into pieces of about what a disk reads at once. The threads take pieces of all fetches in turn, so a long
//! one does not hold up a short one. A piece that ends early ends its chain: later pieces are thrown away. Pieces that were read but not
//! taken are limited, so a slow engine stops its own fetches and no memory fills up.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{BlockStore, End, Got, Wanted};
use crate::{BlockBytes, Error, Result};

/// What one piece is to have, unless a single block has more.
const PIECE_BYTES: usize = 4 << 20;
/// Pieces of one fetch that are being read or wait to be taken.
const PIECES_AHEAD: usize = 8;

/// The door to the threads. Dropping it ends all fetches.
#[derive(Debug)]
pub struct Reader {
    desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Desk {
    store: Arc<dyn BlockStore>,
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Fetches with pieces to read, in turn.
    fetches: VecDeque<Arc<Job>>,
    ended: bool,
}

/// One chain on its way. Dropping it cancels what was not read yet.
#[derive(Debug)]
pub struct Fetch {
    job: Arc<Job>,
    desk: Arc<Desk>,
    /// Blocks of the piece that is being handed over.
    ready: VecDeque<BlockBytes>,
}

/// What a fetch has to say at the moment.
#[derive(Debug)]
pub enum Next {
    /// The next block, in the order asked for.
    Block(BlockBytes),
    /// Nothing yet.
    Wait,
    /// There are no more; why, if it was not all.
    End,
}

struct Job {
    wanted: Vec<Wanted>,
    pieces: Vec<Range<usize>>,
    wake: Box<dyn Fn() + Send + Sync>,
    state: Mutex<Progress>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// The next piece to read.
    claimed: usize,
    /// The next piece to hand over.
    taken: usize,
    /// Pieces that were read and not taken.
    done: BTreeMap<usize, Vec<BlockBytes>>,
    /// The first piece that ended early, and why.
    cut: Option<(usize, End)>,
    /// Whether it stands in the queue.
    queued: bool,
    cancelled: bool,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({} blocks in {} pieces)", self.wanted.len(), self.pieces.len())
    }
}

impl Reader {
    /// Starts threads: as many as reads are to be in flight.
    ///
    /// # Errors
    /// When there are no threads to be had.
    ///
    /// # Panics
    /// If `threads` is 0.
    pub fn start(store: Arc<dyn BlockStore>, threads: usize) -> Result<Self> {
        assert!(threads > 0, "somebody has to read");
        let desk = Arc::new(Desk { store, queue: Mutex::default(), work: Condvar::new() });
        let mut reader = Self { desk, threads: Vec::with_capacity(threads) };
        for i in 0..threads {
            let desk = Arc::clone(&reader.desk);
            let thread = thread::Builder::new().name(format!("omlx-kv-read-{i}")).spawn(move || desk.run());
            reader.threads.push(thread.map_err(Error::Thread)?);
        }
        Ok(reader)
    }

    /// Begins to fetch a chain. `wake` is called on a thread of the reader whenever there is something new to take; it must not wait
    /// for anything.
    pub fn fetch(&self, wanted: Vec<Wanted>, wake: impl Fn() + Send + Sync + 'static) -> Fetch {
        let pieces = pieces(&wanted);
        let state = Mutex::default();
        let job = Arc::new(Job { wanted, pieces, wake: Box::new(wake), state, ready: Condvar::new() });
        let fetch = Fetch { job, desk: Arc::clone(&self.desk), ready: VecDeque::new() };
        fetch.desk.enqueue(&fetch.job);
        fetch
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut queue = self.desk.lock();
        queue.ended = true;
        let left = std::mem::take(&mut queue.fetches);
        drop(queue);
        self.desk.work.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that reads stored blocks had panicked");
            }
        }
        left.iter().for_each(|job| job.cut(0, End::Missing));
    }
}

impl Fetch {
    /// The next block or the end, without waiting.
    pub fn try_next(&mut self) -> Next {
        loop {
            if let Some(block) = self.ready.pop_front() {
                return Next::Block(block);
            }
            let mut state = self.job.lock();
            let piece = state.taken;
            if piece == self.job.pieces.len() || state.cut_here() {
                return Next::End;
            }
            let Some(blocks) = state.done.remove(&piece) else {
                return Next::Wait;
            };
            state.taken += 1;
            drop(state);
            self.ready.extend(blocks);
            self.desk.enqueue(&self.job);
        }
    }

    /// The next block; waits for it. `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "an iterator would hide that it waits, and what ended it")]
    pub fn next(&mut self) -> Option<BlockBytes> {
        loop {
            match self.try_next() {
                Next::Block(block) => return Some(block),
                Next::End => return None,
                Next::Wait => {
                    let state = self.job.lock();
                    if !state.is_news() {
                        // A limit, so that no lost wake-up can hang anybody.
                        let most = Duration::from_millis(100);
                        drop(self.job.ready.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner));
                    }
                }
            }
        }
    }

    /// Why the chain ended before its last block; `None` if it did not, or not yet.
    pub fn cut(&self) -> Option<String> {
        self.job.lock().cut.as_ref().map(|(_, end)| format!("{end:?}"))
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let mut state = self.job.lock();
        state.cancelled = true;
        state.done.clear();
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a fetch at the end of the queue, if it has a piece that may be read and is not there yet.
    fn enqueue(&self, job: &Arc<Job>) {
        let mut queue = self.lock();
        let mut state = job.lock();
        if state.queued || !state.may_claim(job.pieces.len()) {
            return;
        }
        if queue.ended {
            state.cut_at(0, End::Missing);
            return;
        }
        state.queued = true;
        queue.fetches.push_back(Arc::clone(job));
        drop(state);
        drop(queue);
        self.work.notify_one();
    }

    fn run(&self) {
        while let Some((job, piece)) = self.next() {
            let wanted = &job.wanted[job.pieces[piece].clone()];
            // A fetch without an end would be a request without one. Unwind safe: stores survive a panic by their locks' rules.
            let got = catch_unwind(AssertUnwindSafe(|| self.store.get(wanted)));
            let got =
                got.unwrap_or_else(|_| Got { blocks: Vec::new(), end: End::Failed(io::Error::other("it panicked")) });
            let mut state = job.lock();
            // Both at once: whoever takes an unfinished piece has to see that it was the last one.
            if !matches!(got.end, End::All) {
                state.cut_at(piece, got.end);
            }
            if !state.cancelled {
                state.done.insert(piece, got.blocks);
            }
            drop(state);
            job.ready.notify_all();
            (job.wake)();
        }
    }

    /// Waits for a piece to read; `None` at the end.
    fn next(&self) -> Option<(Arc<Job>, usize)> {
        let mut queue = self.lock();
        loop {
            if queue.ended {
                return None;
            }
            let Some(job) = queue.fetches.pop_front() else {
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let mut state = job.lock();
            state.queued = false;
            if !state.may_claim(job.pieces.len()) {
                continue;
            }
            let piece = state.claimed;
            state.claimed += 1;
            let more = state.may_claim(job.pieces.len());
            state.queued = more;
            drop(state);
            if more {
                queue.fetches.push_back(Arc::clone(&job));
                self.work.notify_one();
            }
            return Some((job, piece));
        }
    }
}

impl Job {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self, piece: usize, end: End) {
        self.lock().cut_at(piece, end);
        self.ready.notify_all();
    }
}

impl Progress {
    fn may_claim(&self, pieces: usize) -> bool {
        !self.cancelled && self.cut.is_none() && self.claimed < pieces && self.claimed < self.taken + PIECES_AHEAD
    }

    /// The chain ends within this piece, or earlier if that is known already.
    fn cut_at(&mut self, piece: usize, end: End) {
        if self.cut.as_ref().is_none_or(|(at, _)| piece < *at) {
            self.cut = Some((piece, end));
        }
    }

    /// Whether nothing more will come: the piece that ended early was taken, or will never be read.
    fn cut_here(&self) -> bool {
        self.cut.as_ref().is_some_and(|(at, _)| self.taken > *at || (self.taken == *at && self.claimed <= self.taken))
    }

    fn is_news(&self) -> bool {
        self.done.contains_key(&self.taken) || self.cut_here()
    }
}

/// Ranges of about a piece's bytes.
fn pieces(wanted: &[Wanted]) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (i, want) in wanted.iter().enumerate() {
        bytes += want.len;
        match pieces.last_mut() {
            Some(last) if bytes <= PIECE_BYTES => last.end = i + 1,
            _ => {
                pieces.push(i..i + 1);
                bytes = want.len;
            }
        }
    }
    pieces
}
