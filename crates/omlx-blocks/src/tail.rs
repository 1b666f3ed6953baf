//! The partly filled block at the end of a sequence that has ended: the next turn of a conversation goes on in the middle of it.
//!
//! A tail has a name like a whole block, made of the fewer tokens it holds, but nobody ever shares one: whoever finds it takes
//! it over as its own open block and goes on writing there. So nothing is copied, and of two who want the same tail at
//! the same time the second computes those few tokens again.

use crate::hit::Trail;
use crate::{BlockKey, GroupId, Ledger, SeqId};

impl Ledger {
    /// Ends a sequence as [`close`](Self::close) does, and keeps what its open block holds to be found, too. `tokens` are those that
    /// are computed, all of whose whole blocks were sealed.
    ///
    /// # Panics
    /// If the sequence is not open, or was not sealed as far as that.
    pub fn close_with_tail(&mut self, seq: SeqId, tokens: &[u32]) {
        self.anchor(seq, usize::MAX);
        let (block, mut news) = (self.block, self.news.take());
        let (holdings, groups) = self.parts(seq);
        let rest = &tokens[tokens.len() / block * block..];
        for (g, (holding, group)) in holdings.iter().zip(groups).enumerate() {
            assert_eq!(holding.keys.len(), tokens.len() / block, "{seq:?} is sealed to where it is computed");
            if rest.is_empty() {
                continue;
            }
            let parent = *holding.keys.last().unwrap_or(&group.root);
            let key = parent.child(rest);
            if group.pool.names.contains_key(&key) {
                group.pool.freshen(&key);
                continue;
            }
            group.pool.publish(holding.block(holding.keys.len()), key, parent, rest);
            if let Some(news) = &mut news {
                news.kept.push((GroupId(g as u32), key));
            }
        }
        self.news = news;
        self.let_go(seq);
    }

    /// The name of block `index` of a trail: of a whole one, or of a tail that holds `tokens`.
    ///
    /// # Panics
    /// If there is no such group, or the trail ends before.
    pub fn key(&self, group: GroupId, trail: &Trail, index: usize, tokens: &[u32]) -> BlockKey {
        match tokens.len() < self.block {
            true => self.parent(group, trail, index).child(tokens),
            false => trail.keys(group)[index],
        }
    }

    /// The name of the block before block `index` of a trail.
    pub(crate) fn parent(&self, group: GroupId, trail: &Trail, index: usize) -> BlockKey {
        index.checked_sub(1).map_or(self.groups[group.index()].root, |before| trail.keys(group)[before])
    }

    /// The longest tail behind the first `blocks` blocks of `tokens` of which every group has what `has` asks; at least one token
    /// is left to compute.
    pub(crate) fn tail(
        &self,
        trail: &Trail,
        tokens: &[u32],
        blocks: usize,
        has: &dyn Fn(GroupId, &BlockKey, &[u32]) -> bool,
    ) -> usize {
        let rest = &tokens[blocks * self.block..];
        let most = rest.len().saturating_sub(1).min(self.block - 1);
        let groups = (0..self.groups.len() as u32).map(GroupId);
        let everywhere = |&len: &usize| {
            let run = &rest[..len];
            groups.clone().all(|group| has(group, &self.parent(group, trail, blocks).child(run), run))
        };
        (1..=most).rev().find(everywhere).unwrap_or(0)
    }

    /// The tail that is here.
    pub(crate) fn tail_here(&self, trail: &Trail, tokens: &[u32], blocks: usize) -> usize {
        let has =
            |group: GroupId, key: &BlockKey, run: &[u32]| self.groups[group.index()].pool.find(key, run).is_some();
        self.tail(trail, tokens, blocks, &has)
    }
}

#[cfg(test)]
mod tests;
