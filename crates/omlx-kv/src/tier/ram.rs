//! Blocks in the memory of the host.
//!
//! What goes first: blocks that a window left behind, then the ends of chains, the least recently used first. A block with
//! children here is never given up before them, so a chain's front outlives its end. Room is made before a block is taken
//! in, so the budget holds at every moment.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use omlx_blocks::BlockKey;

use super::{Block, BlockStore, End, Got, StoreStats, Wanted};
use crate::{BlockBytes, Result};

/// What an entry takes besides content and tokens: its label, its places in the maps, and the allocator's share. An estimate, on the high side.
const ENTRY_BYTES: usize = 512;

/// How many names of refused blocks are remembered.
const REFUSED: usize = 1 << 14;

/// A store in memory with a byte budget.
#[derive(Debug)]
pub struct RamStore {
    ram: Mutex<Ram>,
}

#[derive(Debug)]
struct Ram {
    blocks: HashMap<BlockKey, Held>,
    /// How many blocks here have this one for a parent, whether it is here or not.
    children: HashMap<BlockKey, u32>,
    /// Found no room. What follows them is of no use without them, and must not take the place of what is.
    refused: HashSet<BlockKey>,
    /// Whoever may be given up, the first to go first.
    order: BTreeSet<Place>,
    /// Counts uses. One for a whole chain, so its blocks are equally old.
    clock: u64,
    stats: StoreStats,
}

#[derive(Debug)]
struct Held {
    block: Block,
    used: u64,
}

/// A place in the order of giving up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Those a window left behind come before all others: `false` sorts first.
    in_reach: bool,
    used: u64,
    key: BlockKey,
}

impl Held {
    fn place(&self) -> Place {
        Place { in_reach: !self.block.behind, used: self.used, key: self.block.label.key }
    }
}

impl RamStore {
    /// An empty store of at most `budget_bytes`.
    pub fn new(budget_bytes: u64) -> Self {
        let stats = StoreStats { budget_bytes, ..StoreStats::default() };
        let ram = Ram {
            blocks: HashMap::new(),
            children: HashMap::new(),
            refused: HashSet::new(),
            order: BTreeSet::new(),
            clock: 0,
            stats,
        };
        Self { ram: Mutex::new(ram) }
    }

    /// Gives up blocks until no more than `budget_bytes` are taken, now and from now on.
    pub fn set_budget(&self, budget_bytes: u64) {
        let mut ram = self.lock();
        ram.stats.budget_bytes = budget_bytes;
        ram.make_room(0, false);
    }

    /// Gives up blocks until no more than `bytes` are taken, and answers how many bytes that were; later ones may take the whole
    /// budget again.
    pub fn shrink(&self, bytes: u64) -> u64 {
        let mut ram = self.lock();
        let (budget, before) = (ram.stats.budget_bytes, ram.stats.bytes);
        ram.stats.budget_bytes = bytes.min(budget);
        ram.make_room(0, false);
        ram.stats.budget_bytes = budget;
        before - ram.stats.bytes
    }

    fn lock(&self) -> MutexGuard<'_, Ram> {
        // A panic inside would have been one of ours; what it leaves behind may be lost but not wrong.
        self.ram.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockStore for RamStore {
    fn get(&self, wanted: &[Wanted]) -> Got {
        let mut ram = self.lock();
        ram.clock += 1;
        let mut blocks = Vec::with_capacity(wanted.len());
        let mut end = End::All;
        for want in wanted {
            match ram.find(want) {
                Ok(bytes) => {
                    ram.touch(&want.key);
                    blocks.push(bytes);
                }
                Err(other) => {
                    end = other;
                    break;
                }
            }
        }
        ram.stats.hits += blocks.len() as u64;
        match end {
            End::Missing => ram.stats.misses += 1,
            End::Bad => ram.stats.bad += 1,
            End::All | End::Failed(_) => {}
        }
        Got { blocks, end }
    }

    fn put(&self, blocks: &[Block]) -> Result<()> {
        let mut ram = self.lock();
        ram.clock += 1;
        for block in blocks {
            ram.put(block);
        }
        Ok(())
    }

    fn forget(&self, keys: &[BlockKey]) {
        let mut ram = self.lock();
        for key in keys {
            ram.remove(key);
        }
    }

    fn contains(&self, key: &BlockKey) -> bool {
        self.lock().blocks.contains_key(key)
    }

    fn leading(&self, keys: &[BlockKey]) -> usize {
        let ram = self.lock();
        keys.iter().take_while(|key| ram.blocks.contains_key(key)).count()
    }

    fn touch(&self, keys: &[BlockKey]) {
        let mut ram = self.lock();
        ram.clock += 1;
        for key in keys {
            ram.touch(key);
        }
    }

    fn stats(&self) -> StoreStats {
        let ram = self.lock();
        StoreStats { blocks: ram.blocks.len() as u64, ..ram.stats }
    }
}

impl Ram {
    fn find(&self, want: &Wanted) -> std::result::Result<BlockBytes, End> {
        let held = self.blocks.get(&want.key).ok_or(End::Missing)?;
        let same = held.block.label.tokens == want.tokens && held.block.bytes.len() == want.len;
        if same { Ok(held.block.bytes.clone()) } else { Err(End::Bad) }
    }

    /// Whether a block may be given up: it was left behind, or nobody here follows it.
    fn may_go(&self, held: &Held) -> bool {
        held.block.behind || !self.children.contains_key(&held.block.label.key)
    }

    fn touch(&mut self, key: &BlockKey) {
        let clock = self.clock;
        let Some(held) = self.blocks.get_mut(key) else {
            return;
        };
        let was = held.place();
        held.used = clock;
        let is = held.place();
        if self.order.remove(&was) {
            self.order.insert(is);
        }
    }

    fn put(&mut self, block: &Block) {
        let label = &block.label;
        if let Some(held) = self.blocks.get_mut(&label.key) {
            let was = held.place();
            held.block.behind &= block.behind; // somebody it was not behind of has sealed it too
            let (is, key) = (held.place(), label.key);
            let may_go = self.blocks.get(&key).is_some_and(|held| self.may_go(held));
            self.order.remove(&was);
            if may_go {
                self.order.insert(is);
            }
            return self.touch(&key);
        }
        let cost = cost(block);
        // First, so that the block's own parent does not go to make room for it.
        self.join(label.parent);
        if self.refused.contains(&label.parent) || !self.make_room(cost, block.behind) {
            self.leave(label.parent);
            self.stats.refused += 1;
            if self.refused.len() >= REFUSED {
                self.refused.clear();
            }
            self.refused.insert(label.key);
            return;
        }
        self.refused.remove(&label.key);
        let block = Block { bytes: block.bytes.clone().owned(), ..block.clone() };
        let held = Held { block, used: self.clock };
        if self.may_go(&held) {
            self.order.insert(held.place());
        }
        self.stats.bytes += cost;
        self.stats.written += 1;
        self.blocks.insert(held.block.label.key, held);
    }

    /// Gives up blocks until `cost` more bytes fit; for a block left behind, only others of that kind.
    fn make_room(&mut self, cost: u64, behind: bool) -> bool {
        if cost > self.stats.budget_bytes {
            return false;
        }
        while self.stats.bytes + cost > self.stats.budget_bytes {
            let first = self.order.first().copied();
            let Some(first) = first.filter(|first| !behind || !first.in_reach) else {
                return false;
            };
            self.remove(&first.key);
            self.stats.evicted += 1;
        }
        true
    }

    fn remove(&mut self, key: &BlockKey) {
        let Some(held) = self.blocks.remove(key) else {
            return;
        };
        self.order.remove(&held.place());
        self.stats.bytes -= cost(&held.block);
        self.leave(held.block.label.parent);
    }

    /// One more child of `parent`.
    fn join(&mut self, parent: BlockKey) {
        *self.children.entry(parent).or_insert(0) += 1;
        if let Some(held) = self.blocks.get(&parent)
            && !held.block.behind
        {
            self.order.remove(&held.place());
        }
    }

    /// One child of `parent` less.
    fn leave(&mut self, parent: BlockKey) {
        if let Some(count) = self.children.get_mut(&parent) {
            *count -= 1;
            if *count == 0 {
                self.children.remove(&parent);
                if let Some(held) = self.blocks.get(&parent) {
                    self.order.insert(held.place());
                }
            }
        }
    }
}

/// Bytes that a block takes.
fn cost(block: &Block) -> u64 {
    (block.bytes.len() + 4 * block.label.tokens.len() + ENTRY_BYTES) as u64
}
