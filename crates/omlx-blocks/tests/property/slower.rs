//! A slower place beside the naive cache: it listens to the ledger, keeps what it is told of, and brings back what a prompt lacks.
//!
//! Names are found out here by asking for each one that there ever was, so a block that loses its name without a word is noticed,
//! and so is a word about one that keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use omlx_blocks::{BlockId, BlockKey, Evicted, GroupId, Named, Reach};

use crate::world::{BLOCK, Entry, World, history, sees};

/// Everything about a name, from the tokens.
struct Known {
    group: GroupId,
    parent: Option<BlockKey>,
    tokens: Vec<u32>,
    content: Vec<Entry>,
}

#[derive(Default)]
pub(crate) struct Slower {
    /// Every name that there ever was.
    names: BTreeMap<BlockKey, Known>,
    /// Those that could be found when anybody looked last, and where.
    here: BTreeMap<BlockKey, BlockId>,
    /// What the slower place has.
    elsewhere: BTreeSet<BlockKey>,
    /// Sealed in a group that sees everything: it has to be told of these.
    pub(crate) owed: BTreeSet<BlockKey>,
    /// The names of what was discarded: it has to be told of these, and of no others.
    disowned: Vec<BlockKey>,
}

impl World {
    pub(crate) fn was_named(&mut self, group: GroupId, tokens: &[u32], block: usize) -> BlockKey {
        let (start, end) = (block * BLOCK, tokens.len().min((block + 1) * BLOCK));
        let trail = self.ledger.trail(&tokens[..end]);
        let (keys, key) = (trail.keys(group), self.ledger.key(group, &trail, block, &tokens[start..end]));
        let content = (start..end).map(|pos| Some((history(&tokens[..=pos]), pos))).collect();
        let parent = block.checked_sub(1).map(|before| keys[before]);
        let known = Known { group, parent, tokens: tokens[start..end].to_vec(), content };
        self.slower.names.insert(key, known);
        if let Some(named) = self.ledger.named(group, &key) {
            self.slower.here.insert(key, named.block);
        }
        key
    }

    pub(crate) fn was_sealed(&mut self, tokens: &[u32], blocks: Range<usize>) {
        for g in 0..self.reaches.len() {
            for block in blocks.clone() {
                let key = self.was_named(GroupId(g as u32), tokens, block);
                if self.reaches[g] == Reach::All {
                    self.slower.owed.insert(key);
                }
            }
        }
    }

    /// A sequence was discarded, and the prefix in whose tail it began with it.
    pub(crate) fn was_disowned(&mut self, tokens: &[u32], tail: &[u32]) {
        let trail = self.ledger.trail(tokens);
        let groups = (0..self.reaches.len() as u32).map(GroupId);
        self.slower.disowned = groups.clone().flat_map(|group| trail.keys(group).to_vec()).collect();
        if !tail.is_empty() {
            let (trail, block) = (self.ledger.trail(tail), tail.len() / BLOCK);
            let key = |group| self.ledger.key(group, &trail, block, &tail[block * BLOCK..]);
            self.slower.disowned.extend(groups.map(key));
        }
    }

    /// What could be found when anybody looked last and cannot be found now.
    fn vanished(&mut self) -> BTreeMap<BlockKey, BlockId> {
        let mut now = BTreeMap::new();
        for (key, known) in &self.slower.names {
            if let Some(Named { block, parent, tokens }) = self.ledger.named(known.group, key) {
                assert_eq!(known.parent.unwrap_or(parent), parent);
                assert_eq!(known.tokens, tokens);
                now.insert(*key, block);
            }
        }
        let mut before = std::mem::replace(&mut self.slower.here, now);
        before.retain(|key, _| !self.slower.here.contains_key(key));
        before
    }

    fn content(&self, group: GroupId, block: BlockId) -> &[Entry] {
        &self.memory[group.index()][block.index() * BLOCK..][..BLOCK]
    }

    /// After places were taken and before they are written: who lost one is told of, once, with all that there was to it.
    pub(crate) fn hears_who_lost_a_place(&mut self) {
        // Asked first: only what is asked for is noted.
        let told = self.ledger.evicted();
        let mut roots = BTreeMap::new();
        let mut names = BTreeSet::new();
        for Evicted { group, block, key, parent, tokens, behind } in told {
            let known = &self.slower.names[&key];
            assert_eq!((known.group, &*known.tokens), (group, &*tokens));
            assert_eq!(known.parent.unwrap_or(parent), parent);
            if known.parent.is_none() {
                assert_eq!(*roots.entry(group).or_insert(parent), parent, "first blocks have one root");
            }
            assert_eq!(self.slower.here.get(&key), Some(&block), "{key:?} was elsewhere");
            assert_eq!(
                self.content(group, block)[..tokens.len()],
                known.content,
                "{key:?} stands no more at the place it lost"
            );
            assert!(!behind || self.reaches[group.index()] != Reach::All, "nothing is behind where all is seen");
            assert!(names.insert(key), "{key:?} is told of twice");
            self.slower.elsewhere.insert(key);
        }
        assert_eq!(self.vanished().into_keys().collect::<BTreeSet<_>>(), names, "lost a place, and told to have");
    }

    /// After anything that takes no place: nobody is told to have lost one.
    pub(crate) fn nobody_lost_a_place(&mut self) {
        assert_eq!(self.ledger.evicted(), []);
        self.vanished();
        for (key, &block) in &self.slower.here {
            let known = &self.slower.names[key];
            assert_eq!(
                self.content(known.group, block)[..known.tokens.len()],
                known.content,
                "{key:?} leads to another's content"
            );
        }
    }

    pub(crate) fn hears_the_news(&mut self) {
        let news = self.ledger.news();
        let disowned = std::mem::take(&mut self.slower.disowned);
        assert!(disowned.is_empty() || news.kept.is_empty(), "what is discarded is not worth keeping");
        assert_eq!(BTreeSet::from_iter(&news.disowned), BTreeSet::from_iter(&disowned));
        for key in &news.disowned {
            self.slower.elsewhere.remove(key);
        }
        let mut owed = std::mem::take(&mut self.slower.owed);
        for (group, key) in news.kept {
            let known = self.slower.names.get(&key);
            assert_eq!(known.map(|known| known.group), Some(group), "{key:?} was never sealed");
            owed.remove(&key);
            self.slower.elsewhere.insert(key);
        }
        assert!(owed.is_empty(), "sealed and not told of: {owed:?}");
    }

    /// Asks what a prompt lacks that the slower place has, where one in four is lost, brings it, and finds it.
    pub(crate) fn fetch(&mut self, tokens: &[u32], seed: u64) {
        let trail = self.ledger.trail(tokens);
        let elsewhere: BTreeSet<BlockKey> =
            self.slower.elsewhere.iter().copied().filter(|key| drawn(key, seed) > 0).collect();
        let lack = self.ledger.lack(&trail, tokens, &|key| elsewhere.contains(key));
        assert_eq!(lack.here, self.ledger.hit(tokens));
        // Whole blocks first, then the longest tail behind the most of them.
        let (here, most) = (lack.here / BLOCK * BLOCK, tokens.len() - 1);
        let longer = (here + 1..=most).rev().filter(|end| end % BLOCK == 0);
        let found: Vec<_> = longer.map(|end| (end, self.missing(tokens, end, &elsewhere))).collect();
        let whole = found.into_iter().find_map(|(end, missing)| Some((end, missing?)));
        let end = whole.as_ref().map_or(here, |whole| whole.0);
        let longer = (end.max(lack.here) + 1..=most.min(end + BLOCK - 1)).rev();
        let found: Vec<_> = longer.map(|end| (end, self.missing(tokens, end, &elsewhere))).collect();
        let tail = found.into_iter().find_map(|(end, missing)| Some((end, missing?)));
        let (there, blocks) = tail.or(whole).unwrap_or((lack.here, Vec::new()));
        assert_eq!((lack.there, &lack.blocks), (there, &blocks), "{} are here", lack.here);
        self.ledger.freshen(&trail, &tokens[..there]);
        for at in blocks {
            assert!(self.bring(&trail, &tokens[..there], at), "{at:?} finds no room");
        }
        assert_eq!(self.ledger.hit(tokens), there, "{} were here", lack.here);
    }

    /// Which blocks a prefix of `end` tokens lacks, if all of them are elsewhere and there is room for them beside what is here of it.
    fn missing(&self, tokens: &[u32], end: usize, elsewhere: &BTreeSet<BlockKey>) -> Option<Vec<(GroupId, usize)>> {
        let trail = self.ledger.trail(tokens);
        let name = |group, block: usize| {
            self.ledger.key(group, &trail, block, &tokens[block * BLOCK..end.min((block + 1) * BLOCK)])
        };
        let (mut all, mut tails) = (Vec::new(), Vec::new());
        for (g, &reach) in self.reaches.iter().enumerate() {
            let group = GroupId(g as u32);
            let tables = self.seqs.keys().map(|&seq| self.ledger.table(seq, group));
            let held: BTreeSet<BlockId> = tables.flat_map(|table| table.live().collect::<Vec<_>>()).collect();
            // A tail hangs on what its last whole block sees.
            let whole = end / BLOCK * BLOCK;
            let mut needed: BTreeSet<usize> = sees(reach, whole).into_iter().map(|p| p / BLOCK).collect();
            needed.extend((whole < end).then_some(whole / BLOCK));
            let (mut missing, mut idle) = (Vec::new(), 0);
            for block in needed {
                match self.ledger.named(group, &name(group, block)) {
                    Some(named) => idle += usize::from(!held.contains(&named.block)),
                    None => missing.push((group, block)),
                }
            }
            let there = missing.iter().all(|&(_, block)| elsewhere.contains(&name(group, block)));
            if !there || missing.len() + idle > self.ledger.free_blocks(group) {
                return None;
            }
            tails.extend(missing.pop_if(|at| at.1 == end / BLOCK));
            all.extend(missing);
        }
        all.extend(tails);
        Some(all)
    }
}

/// One of four numbers, by name and seed.
fn drawn(key: &BlockKey, seed: u64) -> u64 {
    let bytes = key.as_bytes()[..8].try_into().expect("eight");
    (u64::from_le_bytes(bytes) ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62
}
