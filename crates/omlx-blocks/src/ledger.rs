//! All groups together: grow, seal, forget, close.
//!
//! Sealed blocks never change and are shared by count; the open block at the end of a sequence is private, and found again it is
//! taken over as a whole. So nothing is ever copied on write. Every group of a sequence covers the same tokens; groups differ only in how much of the front
//! they have forgotten.

use std::collections::BTreeMap;

use crate::news::News;
use crate::pool::{Leave, Pool};
use crate::{BlockId, BlockKey, BlockTable, GroupId, Reach, Salt, SeqId};

/// How one group looks back and how many blocks its pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSize {
    /// How far back the group's layers look.
    pub reach: Reach,
    /// Blocks in the group's pool.
    pub blocks: usize,
}

/// The answer to [`Ledger::grow`] when some group has too few blocks; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) reach: Reach,
    pub(crate) root: BlockKey,
    pub(crate) pool: Pool,
}

/// One sequence in one group.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    pub(crate) table: BlockTable,
    /// Names of all sealed blocks from the start, forgotten ones too: each is the parent of the next.
    pub(crate) keys: Vec<BlockKey>,
    /// The name of the tail that it began with.
    pub(crate) tail: Option<BlockKey>,
}

/// Who holds which block, for every sequence and group of one cache.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) block: usize,
    pub(crate) groups: Vec<Group>,
    pub(crate) seqs: BTreeMap<SeqId, Vec<Holding>>,
    pub(crate) news: Option<News>,
}

impl Ledger {
    /// A ledger with empty pools; `block` is the tokens per block, `salt` everything but tokens that shapes content.
    ///
    /// # Panics
    /// If there is no group, a group has no blocks, `block` or a window is 0, or a pool has more slots than `u32` counts.
    pub fn new(block: usize, groups: &[GroupSize], salt: Salt) -> Self {
        assert!(block > 0, "a block holds at least one token");
        assert!(!groups.is_empty(), "a cache has at least one group");
        let salt = salt.with("block", &(block as u64).to_le_bytes());
        let group = |(i, size): (usize, &GroupSize)| {
            assert!(size.blocks > 0, "group {i} has no blocks");
            let blind = matches!(size.reach, Reach::Last(0) | Reach::Keep { last: 0, .. });
            assert!(!blind, "group {i} sees nothing");
            assert!(size.blocks.saturating_mul(block) <= u32::MAX as usize, "group {i} has more slots than u32 counts");
            Group {
                reach: size.reach,
                root: BlockKey::root(&group_salt(&salt, i, size.reach)),
                pool: Pool::new(size.blocks),
            }
        };
        Self { block, groups: groups.iter().enumerate().map(group).collect(), seqs: BTreeMap::new(), news: None }
    }

    /// Room for `len` tokens in every group, or nothing changes.
    pub fn grow(&mut self, seq: SeqId, len: usize) -> Result<(), Full> {
        let blocks = len.div_ceil(self.block);
        let (holdings, groups) = self.parts(seq);
        let lacking = |(h, g): (&Holding, &Group)| blocks.saturating_sub(h.table.end()) <= g.pool.available();
        if !holdings.iter().zip(groups.iter()).all(lacking) {
            return Err(Full);
        }
        for (holding, group) in holdings.iter_mut().zip(groups) {
            while holding.table.end() < blocks {
                holding.table.push(group.pool.take().ok_or(Full)?);
            }
        }
        Ok(())
    }

    /// Publishes blocks that became full within the first `computed` tokens; drops those behind each group's reach.
    ///
    /// `tokens` is the whole sequence so far; what was sealed before must not have changed.
    pub fn seal(&mut self, seq: SeqId, tokens: &[u32], computed: usize) {
        let block = self.block;
        let mut news = self.news.take();
        let (holdings, groups) = self.parts(seq);
        for (g, (holding, group)) in holdings.iter_mut().zip(groups).enumerate() {
            for i in holding.keys.len()..computed / block {
                let run = &tokens[i * block..(i + 1) * block];
                let parent = *holding.keys.last().unwrap_or(&group.root);
                let key = parent.child(run);
                let id = holding.block(i);
                let kept = group.pool.publish(id, key, parent, run);
                holding.table.replace(i, kept);
                holding.keys.push(key);
                if let Some(news) = news.as_mut().filter(|_| group.reach.worth_keeping(i, block)) {
                    news.kept.push((GroupId(g as u32), key));
                }
            }
            let needed = group.reach.first_visible(computed) / block;
            while holding.table.gap().end < needed
                && let Some(id) = holding.table.forget()
            {
                group.pool.release(id, Leave::Behind);
            }
        }
        self.news = news;
    }

    /// Ends a sequence. Its sealed blocks stay findable until their room is needed; [`close_with_tail`](Self::close_with_tail) keeps
    /// more.
    pub fn close(&mut self, seq: SeqId) {
        self.anchor(seq, usize::MAX);
        self.let_go(seq);
    }

    pub(crate) fn let_go(&mut self, seq: SeqId) {
        let holdings = self.seqs.remove(&seq);
        let holdings = holdings.unwrap_or_else(|| panic!("{seq:?} is not open"));
        for (mut holding, group) in holdings.into_iter().zip(&mut self.groups) {
            // Last block first: it is the first to be evicted.
            while let Some(id) = holding.table.pop_beyond(0) {
                group.pool.release(id, Leave::Closed);
            }
        }
    }

    /// Forgets blocks that are only kept to be found, those worth least first, until a group has at most `keep` of them; answers every
    /// block of the group that nobody holds or finds and that may have content, in order. Their content is of no use to anyone.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn give_up(&mut self, group: GroupId, keep: usize) -> Vec<BlockId> {
        self.groups[group.index()].pool.give_up(keep)
    }

    pub(crate) fn parts(&mut self, seq: SeqId) -> (&mut Vec<Holding>, &mut Vec<Group>) {
        let holdings = self.seqs.get_mut(&seq);
        let holdings = holdings.unwrap_or_else(|| panic!("{seq:?} is not open"));
        (holdings, &mut self.groups)
    }
}

/// Questions; nothing here changes anything.
impl Ledger {
    /// The blocks of one sequence in one group.
    ///
    /// # Panics
    /// If the sequence is not open or there is no such group.
    pub fn table(&self, seq: SeqId, group: GroupId) -> &BlockTable {
        &self.holdings(seq)[group.index()].table
    }

    /// Tokens per block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// How far back a group looks.
    pub fn reach(&self, group: GroupId) -> Reach {
        self.groups[group.index()].reach
    }

    /// All blocks of a group's pool.
    pub fn blocks(&self, group: GroupId) -> usize {
        self.groups[group.index()].pool.blocks.len()
    }

    /// Blocks of a group that a sequence could take now: free ones, and idle ones that are only kept to be found.
    pub fn free_blocks(&self, group: GroupId) -> usize {
        self.groups[group.index()].pool.available()
    }

    /// Blocks of a group that are only kept to be found.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn idle_blocks(&self, group: GroupId) -> usize {
        self.groups[group.index()].pool.idle.len()
    }

    /// Blocks of a group that nobody holds and that may have content: idle ones, and free ones that were taken since they were last
    /// [given up](Self::give_up).
    ///
    /// # Panics
    /// If there is no such group.
    pub fn spare_blocks(&self, group: GroupId) -> usize {
        self.groups[group.index()].pool.spare()
    }

    /// The most tokens `seq` could hold if it grew now.
    pub fn room(&self, seq: SeqId) -> usize {
        let room = |(h, g): (&Holding, &Group)| (h.table.end() + g.pool.available()) * self.block;
        let rooms = self.holdings(seq).iter().zip(&self.groups).map(room);
        rooms.min().unwrap_or(0)
    }

    /// Blocks that `seq` may still take in a group on its way to `len` tokens, at most `step` a step.
    pub fn lacks(&self, seq: SeqId, group: GroupId, len: usize, step: usize) -> usize {
        let table = &self.holdings(seq)[group.index()].table;
        let peak = self.reach(group).peak_blocks(len, step, self.block);
        let left = len.div_ceil(self.block).saturating_sub(table.end());
        left.min(peak.saturating_sub(table.live().len()))
    }

    /// The most tokens a sequence can ever hold, alone in the cache and growing one token a step.
    pub fn capacity(&self) -> usize {
        let most = |g: &Group| match g.reach.peak_blocks(usize::MAX, 1, self.block) {
            peak if peak <= g.pool.blocks.len() => usize::MAX,
            _ => g.pool.blocks.len() * self.block,
        };
        self.groups.iter().map(most).min().unwrap_or(0)
    }

    pub(crate) fn holdings(&self, seq: SeqId) -> &[Holding] {
        let holdings = self.seqs.get(&seq);
        holdings.unwrap_or_else(|| panic!("{seq:?} is not open"))
    }
}

impl Holding {
    pub(crate) fn block(&self, index: usize) -> BlockId {
        let id = self.table.get(index);
        id.unwrap_or_else(|| panic!("block {index} is not in the table"))
    }
}

fn group_salt(salt: &Salt, index: usize, reach: Reach) -> Salt {
    let (window, kept) = match reach {
        Reach::All => (0, 0),
        Reach::Last(w) => (w as u64, 0),
        Reach::Keep { first, last } => (last as u64, first as u64),
    };
    let salt = salt.with("group", &(index as u64).to_le_bytes()).with("window", &window.to_le_bytes());
    salt.with("kept", &kept.to_le_bytes())
}

#[cfg(test)]
mod tests;
