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
    /// The blocks to fetch, by group and index; in each group from the beginning on. Empty if nothing is gained.
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
        let here = self.hit_along(trail, tokens);
        let most = (tokens.len().saturating_sub(1) / self.block).min(trail.blocks());
        let groups = (0..self.groups.len() as u32).map(GroupId);
        let places: Vec<Places> = groups.clone().map(|g| self.places(g, trail, (tokens, most), elsewhere)).collect();
        let needed = |group: GroupId, blocks| self.needed(&self.groups[group.index()], blocks);
        let counts = |&blocks: &usize| groups.clone().zip(&places).all(|(g, p)| p.cover(blocks, &needed(g, blocks)));
        let Some(there) = (here / self.block + 1..=most).rev().find(counts) else {
            return Lack { here, there: here, blocks: Vec::new() };
        };
        let mut blocks = Vec::new();
        for (group, places) in groups.zip(&places) {
            let Needed { kept, window } = needed(group, there);
            let missing = (0..kept).chain(window..there).filter(|&i| places.elsewhere[i + 1] > places.elsewhere[i]);
            blocks.extend(missing.map(|i| (group, i)));
        }
        Lack { here, there: there * self.block, blocks }
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
