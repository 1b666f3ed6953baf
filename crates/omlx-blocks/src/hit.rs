//! What the cache knows of a prompt: its trail of names, how far they are all here, and opening a sequence there.

use crate::ledger::{Group, Holding};
use crate::table::BlockTable;
use crate::{BlockId, BlockKey, GroupId, Ledger, SeqId};

/// The names that a run of tokens has, block by block in each group. Hashed once and kept, asking again costs look-ups only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Per group.
    keys: Vec<Vec<BlockKey>>,
}

impl Trail {
    /// The names in one group, first block first.
    ///
    /// # Panics
    /// If the ledger that made the trail has no such group.
    pub fn keys(&self, group: GroupId) -> &[BlockKey] {
        &self.keys[group.index()]
    }

    /// How many whole blocks it covers.
    pub fn blocks(&self) -> usize {
        self.keys.first().map_or(0, Vec::len)
    }

    /// The trail of a shorter run: its first `blocks` blocks.
    #[must_use]
    pub fn cut(&self, blocks: usize) -> Self {
        Self { keys: self.keys.iter().map(|keys| keys[..blocks.min(keys.len())].to_vec()).collect() }
    }
}

impl Ledger {
    /// The names of all whole blocks of `tokens`.
    pub fn trail(&self, tokens: &[u32]) -> Trail {
        let mut trail = Trail { keys: vec![Vec::new(); self.groups.len()] };
        self.follow(&mut trail, tokens);
        trail
    }

    /// Lengthens a trail to all whole blocks of `tokens`, which begin with those that the trail was made of.
    pub fn follow(&self, trail: &mut Trail, tokens: &[u32]) {
        for (keys, group) in trail.keys.iter_mut().zip(&self.groups) {
            for block in tokens.chunks_exact(self.block).skip(keys.len()) {
                let parent = keys.last().unwrap_or(&group.root);
                keys.push(parent.child(block));
            }
        }
    }

    /// Longest usable prefix in tokens: whole blocks, then what a tail behind them has; at least one token is left to compute.
    ///
    /// A prefix of length `L` counts if every group has the blocks covering what the token at position `L` sees before
    /// itself: all of them, those of its window, or those of its window and the kept ones at the start.
    pub fn hit(&self, tokens: &[u32]) -> usize {
        self.hit_along(&self.trail(tokens), tokens)
    }

    /// [`hit`](Self::hit) for tokens whose trail is known; what is beyond the trail cannot be found.
    pub fn hit_along(&self, trail: &Trail, tokens: &[u32]) -> usize {
        let blocks = self.whole_blocks(trail, tokens);
        blocks * self.block + self.tail_here(trail, tokens, blocks)
    }

    /// The whole blocks of the longest usable prefix.
    pub(crate) fn whole_blocks(&self, trail: &Trail, tokens: &[u32]) -> usize {
        let most = (tokens.len().saturating_sub(1) / self.block).min(trail.blocks());
        let found = self.groups.iter().zip(&trail.keys).map(|(group, keys)| self.runs(group, &keys[..most], tokens));
        let found: Vec<Runs> = found.collect();
        let usable = |&blocks: &usize| {
            let mut groups = self.groups.iter().zip(&found);
            groups.all(|(group, runs)| runs.cover(blocks, self.needed(group, blocks)))
        };
        (0..=most).rev().find(usable).unwrap_or(0)
    }

    fn runs(&self, group: &Group, keys: &[BlockKey], tokens: &[u32]) -> Runs {
        let mut runs = Runs { before: vec![0], front: 0 };
        let mut run = 0;
        for (i, (key, block)) in keys.iter().zip(tokens.chunks_exact(self.block)).enumerate() {
            match group.pool.find(key, block) {
                Some(_) => run += 1,
                // without its first block, or with a hole anywhere, nothing longer can count
                None if group.reach == crate::Reach::All => break,
                None => run = 0,
            }
            runs.front += usize::from(run == i + 1);
            runs.before.push(run);
        }
        runs
    }

    /// Which of the first `blocks` blocks the token after them needs: those before `kept`, and those from `window` on.
    pub(crate) fn needed(&self, group: &Group, blocks: usize) -> Needed {
        let kept = group.reach.kept_blocks(self.block).min(blocks);
        let window = group.reach.first_visible(blocks * self.block) / self.block;
        Needed { kept, window: window.max(kept) }
    }

    /// Starts a sequence whose first `hit` tokens are known; `hit` is what [`hit`](Self::hit) has just answered, or less
    /// in whole blocks where it still counts. A tail is nobody else's from then on.
    ///
    /// # Panics
    /// If the sequence is open already, or the prefix does not count.
    pub fn open(&mut self, seq: SeqId, tokens: &[u32], hit: usize) {
        self.open_along(seq, &self.trail(&tokens[..hit]), tokens, hit);
    }

    /// [`open`](Self::open) for tokens whose trail is known.
    ///
    /// # Panics
    /// If the sequence is open already, the prefix does not count, or the trail is shorter.
    pub fn open_along(&mut self, seq: SeqId, trail: &Trail, tokens: &[u32], hit: usize) {
        assert!(!self.seqs.contains_key(&seq), "{seq:?} is open already");
        let blocks = hit / self.block;
        assert!(blocks <= trail.blocks(), "the trail ends before the hit");
        let mut holdings = Vec::with_capacity(self.groups.len());
        for g in 0..self.groups.len() {
            let Needed { kept, window } = self.needed(&self.groups[g], blocks);
            let group = &mut self.groups[g];
            let keys = trail.keys[g][..blocks].to_vec();
            let mut table = BlockTable::starting_at(group.reach.kept_blocks(self.block), window - kept);
            for (i, run) in tokens[..hit].chunks_exact(self.block).enumerate() {
                if i < kept || i >= window {
                    let found = group.pool.find(&keys[i], run);
                    let id = found.unwrap_or_else(|| panic!("group {g} lacks block {i} of a hit"));
                    group.pool.reuse(id);
                    table.push(id);
                }
            }
            let rest = &tokens[blocks * self.block..hit];
            let tail = (!rest.is_empty()).then(|| keys.last().unwrap_or(&group.root).child(rest));
            if let Some(key) = &tail {
                let found = group.pool.find(key, rest);
                let id = found.unwrap_or_else(|| panic!("group {g} lacks the tail of a hit"));
                group.pool.take_over(id);
                table.push(id);
            }
            holdings.push(Holding { table, keys, tail });
        }
        self.seqs.insert(seq, holdings);
    }

    /// Gives block `index` of a trail, a whole one or a tail, whose content comes from elsewhere, its name and its place, to be found by the next hit; the caller
    /// writes the content there before it asks for anything else. `None` if the block is here already, or if every
    /// block of the group is held.
    ///
    /// Nobody holds an adopted block: like every idle one it may be evicted when room is needed, the least recent
    /// first. Adopt a chain from its end to its beginning, so that the beginning stays longest.
    ///
    /// # Panics
    /// If there is no such group, the trail has no block `index`, or `tokens` is nothing or more than one block.
    pub fn adopt(&mut self, group: GroupId, trail: &Trail, index: usize, tokens: &[u32]) -> Option<BlockId> {
        assert!((1..=self.block).contains(&tokens.len()), "one block");
        let (key, parent) = (self.key(group, trail, index, tokens), self.parent(group, trail, index));
        self.groups[group.index()].pool.adopt(key, parent, tokens)
    }
}

/// What was found of one group's blocks, up to the first one without which nothing longer can count.
struct Runs {
    /// `before[n]`: how many in a row end just before block `n`.
    before: Vec<usize>,
    /// How many in a row begin with the first one.
    front: usize,
}

pub(crate) struct Needed {
    pub(crate) kept: usize,
    pub(crate) window: usize,
}

impl Runs {
    fn cover(&self, blocks: usize, Needed { kept, window }: Needed) -> bool {
        self.front >= kept && self.before.get(blocks).is_some_and(|&run| run >= blocks - window)
    }
}

#[cfg(test)]
mod tests;
