//! What a prompt lacks here that a slower place has: the longest prefix that counts if that were fetched, and which blocks it takes.

use crate::hit::Needed;
use crate::{BlockKey, GroupId, Ledger, Trail};

/// How much further a prompt would be known with blocks from elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lack {
    /// Tokens that are known without: what [`Ledger::hit`] says.
    pub here: usize,
    /// Tokens that would be known with them.
    pub there: usize,
    /// The blocks to fetch, by group and index; in each group from the beginning on, and the tail after all others. Empty if
    /// nothing is gained.
    pub blocks: Vec<(GroupId, usize)>,
}

/// What of one group's blocks is where: `x[n]` counts among the first `n`.
struct Places {
    nowhere: Vec<usize>,
    elsewhere: Vec<usize>,
    /// Here, but nobody holds them: a fetch must not take their places.
    idle: Vec<usize>,
    /// Blocks that a fetch could take.
    available: usize,
}

impl Ledger {
    /// What of `tokens` a slower place would have to give; `elsewhere` says which names it has.
    ///
    /// Full groups need all blocks of a prefix, windows those within reach of its end. What the pools have no room for beside what
    /// they have of the prefix already is not asked for.
    pub fn lack(&self, trail: &Trail, tokens: &[u32], elsewhere: &dyn Fn(&BlockKey) -> bool) -> Lack {
        let whole = self.whole_blocks(trail, tokens);
        let here = whole * self.block + self.tail_here(trail, tokens, whole);
        let most = (tokens.len().saturating_sub(1) / self.block).min(trail.blocks());
        let groups = (0..self.groups.len() as u32).map(GroupId);
        let places: Vec<Places> = groups.clone().map(|g| self.places(g, trail, (tokens, most), elsewhere)).collect();
        let needed = |group: GroupId, blocks| self.needed(&self.groups[group.index()], blocks);
        let counts = |&blocks: &usize| groups.clone().zip(&places).all(|(g, p)| p.cover(blocks, &needed(g, blocks)));
        let there = (whole + 1..=most).rev().find(counts).unwrap_or(whole);
        let mut blocks = Vec::new();
        for (group, places) in groups.clone().zip(&places).filter(|_| there > whole) {
            let Needed { kept, window } = needed(group, there);
            let missing = (0..kept).chain(window..there).filter(|&i| places.elsewhere[i + 1] > places.elsewhere[i]);
            blocks.extend(missing.map(|i| (group, i)));
        }
        // A tail needs one place more in each group, beside all that the prefix takes.
        let pool = |group: GroupId| &self.groups[group.index()].pool;
        let has = |group: GroupId, key: &BlockKey, run: &[u32]| {
            let missing = blocks.iter().filter(|at: &&(GroupId, usize)| at.0 == group).count();
            let idle = places.get(group.index()).map_or(0, |places| places.idle_at(there, &needed(group, there)));
            match pool(group).find(key, run) {
                Some(_) => missing + idle < pool(group).available(),
                None => elsewhere(key) && missing + idle < pool(group).available(),
            }
        };
        let tail = self.tail(trail, tokens, there, &has);
        let end = there * self.block + tail;
        if end <= here {
            return Lack { here, there: here, blocks: Vec::new() };
        }
        let run = &tokens[there * self.block..end];
        let lacks = |&group: &GroupId| {
            tail > 0 && pool(group).find(&self.parent(group, trail, there).child(run), run).is_none()
        };
        blocks.extend(groups.filter(lacks).map(|group| (group, there)));
        Lack { here, there: end, blocks }
    }

    fn places(
        &self,
        group: GroupId,
        trail: &Trail,
        (tokens, most): (&[u32], usize),
        elsewhere: &dyn Fn(&BlockKey) -> bool,
    ) -> Places {
        let all = self.reach(group) == crate::Reach::All;
        let pool = &self.groups[group.index()].pool;
        let zero = || Vec::from([0]);
        let mut places = Places { nowhere: zero(), elsewhere: zero(), idle: zero(), available: pool.available() };
        for (key, run) in trail.keys(group)[..most].iter().zip(tokens.chunks_exact(self.block)) {
            let found = pool.find(key, run);
            let idle = found.is_some_and(|id| pool.blocks[id.index()].rank.is_some());
            let there = found.is_none() && elsewhere(key);
            let nowhere = found.is_none() && !there;
            if all && nowhere {
                break; // nothing longer can count
            }
            let push = |sums: &mut Vec<usize>, one: bool| sums.push(sums[sums.len() - 1] + usize::from(one));
            push(&mut places.nowhere, nowhere);
            push(&mut places.elsewhere, there);
            push(&mut places.idle, idle);
        }
        places
    }
}

impl Places {
    /// How many blocks of a prefix are here without a holder.
    fn idle_at(&self, blocks: usize, &Needed { kept, window }: &Needed) -> usize {
        self.idle[kept] + self.idle[blocks] - self.idle[window]
    }

    fn cover(&self, blocks: usize, &Needed { kept, window }: &Needed) -> bool {
        if blocks >= self.nowhere.len() {
            return false;
        }
        let count = |sums: &[usize]| sums[kept] + sums[blocks] - sums[window];
        count(&self.nowhere) == 0 && count(&self.elsewhere) + count(&self.idle) <= self.available
    }
}

#[cfg(test)]
mod tests;
