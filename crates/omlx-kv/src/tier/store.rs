//! What a place for blocks can do, whatever it is made of.

use std::fmt;
use std::io;

use omlx_blocks::BlockKey;

use super::{Block, Census, Wanted};
use crate::{BlockBytes, Result};

/// A place for blocks. It may lose any of them; it never gives out other content than was put.
///
/// [`get`](Self::get) and [`put`](Self::put) may wait for a disk and belong on helper threads. All the rest answers from memory, but [`forget`](Self::forget)
/// of what a disk has, which is rare, marks it there.
pub trait BlockStore: Send + Sync + fmt::Debug {
    /// Blocks in the order asked for, up to the first that is missing or bad. Counts as use. A bad one is forgotten.
    fn get(&self, wanted: &[Wanted]) -> Got;

    /// Takes blocks in, parents before children. One that is here already is only touched. What is not taken is counted in
    /// [`StoreStats`]; it is an error only when the place itself failed.
    ///
    /// # Errors
    /// When the place cannot be written. What it has can still be read.
    fn put(&self, blocks: &[Block]) -> Result<()>;

    /// Makes blocks impossible to find, now and after a restart.
    fn forget(&self, keys: &[BlockKey]);

    /// Whether a block is here, as far as is known without reading it.
    fn contains(&self, key: &BlockKey) -> bool;

    /// How many of `keys` are here, up to the first that is not.
    fn leading(&self, keys: &[BlockKey]) -> usize;

    /// Counts as use, for those that are here: a chain read from a faster place stays in this one too.
    fn touch(&self, keys: &[BlockKey]);

    /// What it holds and what it has done.
    fn stats(&self) -> StoreStats;

    /// Whose blocks it holds, where it outlives those who wrote them.
    fn census(&self) -> Census {
        Census::default()
    }
}

/// What was got.
#[derive(Debug)]
pub struct Got {
    /// The blocks, in the order asked for, from the first on.
    pub blocks: Vec<BlockBytes>,
    /// Why there are no more.
    pub end: End,
}

/// Why a store gave no more blocks.
#[derive(Debug)]
pub enum End {
    /// All that were asked for are there.
    All,
    /// The next one is not here.
    Missing,
    /// The next one is damaged, or is another than was asked for.
    Bad,
    /// The next one could not be read.
    Failed(io::Error),
}

/// What a store holds and has done since it was opened. Blocks, where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Here now and usable.
    pub blocks: u64,
    /// Bytes taken, everything counted.
    pub bytes: u64,
    /// The most bytes it may take.
    pub budget_bytes: u64,
    /// Given out.
    pub hits: u64,
    /// Asked for and not here.
    pub misses: u64,
    /// Taken in.
    pub written: u64,
    /// Not taken: no room without losing what is worth more, or too large.
    pub refused: u64,
    /// Not taken: writing was off after an error.
    pub skipped: u64,
    /// Given up for others.
    pub evicted: u64,
    /// Found damaged, or to be another than asked for.
    pub bad: u64,
    /// Reads that the system refused.
    pub read_errors: u64,
    /// Writes that the system refused.
    pub write_errors: u64,
    /// Whether writing is off for a while.
    pub writing_off: bool,
}
