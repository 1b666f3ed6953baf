//! Free list, reference counts and the order of eviction for one group.
//!
//! A block is in exactly one of three states: *held* (some table counts it), *idle* (nobody holds it, but its name still
//! finds it) or *free* (no name, no holder). Taking a block uses the free list first and then the idle block that
//! is worth least: first those a window left behind, then the least recently released. Sequences release their last
//! block first, so a chain loses its tail before its front.

use std::collections::{BTreeMap, HashMap};

use crate::{BlockId, BlockKey};

/// Why a table lets go of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leave {
    /// A window moved past it: only a shorter prompt could want it again.
    Behind,
    /// Its sequence ended, was parked or was cut.
    Closed,
}

/// The order of eviction: the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    leave: Leave,
    stamp: u64,
}

/// What a sealed block is found by. Tokens are kept because equal hashes alone are not proof.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) key: BlockKey,
    /// The name of the block before it; of a first one, the group's root.
    pub(crate) parent: BlockKey,
    pub(crate) tokens: Box<[u32]>,
    /// Whether it leads here. Once disowned it does not: only those who hold the block already go on reading it.
    pub(crate) findable: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) holders: u32,
    pub(crate) name: Option<Name>,
    /// Set while idle: its place in the order of eviction.
    pub(crate) rank: Option<Rank>,
    /// A prefix hit brought it back once, so a window leaving it behind does not make it worthless.
    proven: bool,
    /// It was taken since its memory was last given up, so it may have content.
    pub(crate) touched: bool,
}

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) blocks: Vec<Block>,
    pub(crate) free: Vec<BlockId>,
    pub(crate) idle: BTreeMap<Rank, BlockId>,
    /// Looked up, never walked, so its order cannot influence anything.
    pub(crate) names: HashMap<BlockKey, BlockId>,
    releases: u64,
    /// What was evicted since somebody asked, where somebody asks.
    pub(crate) evicted: Option<Vec<Evicted>>,
}

/// A block that lost its name for its place. Its content stands there until the place is written.
#[derive(Debug)]
pub(crate) struct Evicted {
    pub(crate) id: BlockId,
    pub(crate) name: Name,
    /// A window had left it behind.
    pub(crate) behind: bool,
}

impl Pool {
    pub(crate) fn new(blocks: usize) -> Self {
        Self {
            blocks: (0..blocks).map(|_| Block::default()).collect(),
            // Taken from the back: a fresh pool hands out 0, 1, 2, …
            free: (0..blocks as u32).rev().map(BlockId).collect(),
            idle: BTreeMap::new(),
            names: HashMap::new(),
            releases: 0,
            evicted: None,
        }
    }

    /// Blocks that could be taken now, findable ones included.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.idle.len()
    }

    /// A private, nameless block; evicts if it must.
    pub(crate) fn take(&mut self) -> Option<BlockId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => self.evict()?,
        };
        let block = &mut self.blocks[id.index()];
        block.holders = 1;
        block.touched = true;
        Some(id)
    }

    /// Blocks that nobody holds and that may have content: what [`give_up`](Self::give_up) could give up.
    pub(crate) fn spare(&self) -> usize {
        self.blocks.iter().filter(|block| block.touched && block.holders == 0).count()
    }

    /// Forgets idle blocks, those worth least first, until at most `keep` are left, and answers all free ones that may have
    /// content, in order. They count as never taken.
    pub(crate) fn give_up(&mut self, keep: usize) -> Vec<BlockId> {
        // Nobody is told of these: memory is short, and their content goes at once.
        let told = self.evicted.take();
        while self.idle.len() > keep
            && let Some(id) = self.evict()
        {
            self.free.push(id);
        }
        self.evicted = told;
        // As in a fresh pool: what is taken next lies together.
        self.free.sort_unstable_by_key(|id| std::cmp::Reverse(id.0));
        let blocks = &mut self.blocks;
        self.free.iter().rev().copied().filter(|id| std::mem::take(&mut blocks[id.index()].touched)).collect()
    }

    /// The block of this name, if it holds these tokens.
    pub(crate) fn find(&self, key: &BlockKey, tokens: &[u32]) -> Option<BlockId> {
        let id = *self.names.get(key)?;
        let name = self.blocks[id.index()].name.as_ref()?;
        (*name.tokens == *tokens).then_some(id)
    }

    /// One more holder of a sealed block.
    pub(crate) fn hold(&mut self, id: BlockId) {
        let block = &mut self.blocks[id.index()];
        assert!(block.name.is_some(), "{id:?} is private");
        if let Some(rank) = block.rank.take() {
            self.idle.remove(&rank);
        }
        block.holders += 1;
    }

    /// One more holder, found through its name.
    pub(crate) fn reuse(&mut self, id: BlockId) {
        self.hold(id);
        self.blocks[id.index()].proven = true;
    }

    /// Makes a block that nobody holds, and that has a name, somebody's own open one.
    pub(crate) fn take_over(&mut self, id: BlockId) {
        self.hold(id);
        self.reopen(id);
    }

    /// Names a private block, a full one or a tail. If another block has that name already, its one holder moves over to that one and
    /// the private block is freed: equal tokens under equal parents are stored once.
    pub(crate) fn publish(&mut self, id: BlockId, key: BlockKey, parent: BlockKey, tokens: &[u32]) -> BlockId {
        if let Some(&known) = self.names.get(&key) {
            let same = self.find(&key, tokens) == Some(known);
            assert!(same, "{key:?} names two different runs of tokens");
            self.hold(known);
            self.release(id, Leave::Closed);
            return known;
        }
        let block = &mut self.blocks[id.index()];
        assert!(block.holders == 1 && block.name.is_none());
        block.name = Some(Name { key, parent, tokens: tokens.into(), findable: true });
        self.names.insert(key, id);
        id
    }

    /// Makes a sealed block private again; it must have one holder.
    pub(crate) fn reopen(&mut self, id: BlockId) {
        assert_eq!(self.blocks[id.index()].holders, 1, "{id:?} is shared");
        self.unname(id);
    }

    /// Puts a block under this name without any holder, ready to be found; `None` if it is known already or every block is held.
    pub(crate) fn adopt(&mut self, key: BlockKey, parent: BlockKey, tokens: &[u32]) -> Option<BlockId> {
        if self.names.contains_key(&key) {
            return None;
        }
        let id = self.take()?;
        self.publish(id, key, parent, tokens);
        self.release(id, Leave::Closed);
        Some(id)
    }

    /// Makes the block of this name, if there is one, impossible to find. Those who hold it keep it; idle, it is free.
    pub(crate) fn disown(&mut self, key: &BlockKey) {
        let Some(id) = self.names.remove(key) else {
            return;
        };
        let block = &mut self.blocks[id.index()];
        if let Some(name) = &mut block.name {
            name.findable = false;
        }
        if let Some(rank) = block.rank.take() {
            self.idle.remove(&rank);
            self.unname(id);
            self.free.push(id);
        }
    }

    /// One holder less. A named block without holders stays findable, if it was not disowned.
    pub(crate) fn release(&mut self, id: BlockId, leave: Leave) {
        let block = &mut self.blocks[id.index()];
        assert!(block.holders > 0, "{id:?} has no holder");
        block.holders -= 1;
        if block.holders > 0 {
            return;
        }
        if !block.name.as_ref().is_some_and(|name| name.findable) {
            self.unname(id);
            self.free.push(id);
            return;
        }
        let leave = if block.proven { Leave::Closed } else { leave };
        self.rest(id, leave);
    }

    /// Counts as used now, if nobody holds it: it goes after all others that are idle.
    pub(crate) fn freshen(&mut self, key: &BlockKey) {
        let Some(&id) = self.names.get(key) else {
            return;
        };
        if let Some(rank) = self.blocks[id.index()].rank.take() {
            self.idle.remove(&rank);
            self.rest(id, Leave::Closed);
        }
    }

    /// Puts a block that nobody holds at the end of its kind.
    fn rest(&mut self, id: BlockId, leave: Leave) {
        let stamp = self.releases;
        self.releases += 1;
        let rank = Rank { leave, stamp };
        self.blocks[id.index()].rank = Some(rank);
        self.idle.insert(rank, id);
    }

    /// Evicts all that is idle.
    pub(crate) fn retire(&mut self) {
        while let Some(id) = self.evict() {
            self.free.push(id);
        }
    }

    fn evict(&mut self) -> Option<BlockId> {
        let (rank, id) = self.idle.pop_first()?;
        self.blocks[id.index()].rank = None;
        let name = self.unname(id);
        if let (Some(evicted), Some(name)) = (&mut self.evicted, name) {
            evicted.push(Evicted { id, name, behind: rank.leave == Leave::Behind });
        }
        Some(id)
    }

    fn unname(&mut self, id: BlockId) -> Option<Name> {
        let block = &mut self.blocks[id.index()];
        block.proven = false;
        let name = block.name.take()?;
        if name.findable {
            self.names.remove(&name.key);
        }
        Some(name)
    }
}

#[cfg(test)]
mod tests;
