//! The naive cache beside the ledger: whole sequences, and a memory that is written through the slots.

use std::collections::{BTreeMap, BTreeSet};

use omlx_blocks::{GroupId, GroupSize, Ledger, Reach, Salt, SeqId, Slot, Trail, Uncut};

use crate::Move;
use crate::slower::Slower;

pub(crate) const BLOCK: usize = 4;

/// What stands at one slot: a hash over everything up to its token, and the position.
pub(crate) type Entry = Option<(u64, usize)>;

#[derive(Clone, Debug)]
pub(crate) struct Seq {
    pub(crate) tokens: Vec<u32>,
    pub(crate) computed: usize,
    /// Blocks it holds that were discarded by another: nobody finds them, and others may have computed them anew.
    disowned: BTreeSet<usize>,
    /// It began in the middle of a block, with these tokens before it.
    tail: Vec<u32>,
}

pub(crate) struct World {
    pub(crate) ledger: Ledger,
    pub(crate) reaches: Vec<Reach>,
    /// Nothing is ever evicted, so a hit must be as long as it can be.
    ample: bool,
    pub(crate) memory: Vec<Vec<Entry>>,
    pub(crate) seqs: BTreeMap<SeqId, Seq>,
    /// Every prefix that some sequence has sealed, or that was brought, by group.
    pub(crate) sealed: Vec<BTreeSet<Vec<u32>>>,
    /// Every prefix that ends in a tail which nobody has taken over, by group.
    pub(crate) tails: Vec<BTreeSet<Vec<u32>>>,
    /// What slower places have been told.
    pub(crate) slower: Slower,
    next: u64,
}

/// What the token at `pos` sees before itself, by the sentence and not by the code under test.
pub(crate) fn sees(reach: Reach, pos: usize) -> Vec<usize> {
    let near = |p: &usize| match reach {
        Reach::All => true,
        Reach::Last(w) => p + w > pos,
        Reach::Keep { first, last } => p + last > pos || *p < first,
    };
    (0..pos).filter(near).collect()
}

pub(crate) fn prompt(shared: usize, own: usize, kind: u32) -> Vec<u32> {
    let mut tokens: Vec<u32> = (0..shared as u32).map(|p| p % 5).collect();
    tokens.extend((0..own as u32).map(|p| 10 + kind + p % 2));
    tokens
}

pub(crate) fn history(tokens: &[u32]) -> u64 {
    tokens
        .iter()
        .fold(17, |hash: u64, &token| (hash ^ u64::from(token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23))
}

impl World {
    pub(crate) fn new(reaches: Vec<Reach>, blocks: usize, ample: bool) -> Self {
        let size = |&reach: &Reach| GroupSize { reach, blocks };
        let sizes: Vec<GroupSize> = reaches.iter().map(size).collect();
        let mut ledger = Ledger::new(BLOCK, &sizes, Salt::of(&[("test", b"property")]));
        ledger.listen();
        Self {
            ledger,
            memory: vec![vec![None; blocks * BLOCK]; reaches.len()],
            sealed: vec![BTreeSet::new(); reaches.len()],
            tails: vec![BTreeSet::new(); reaches.len()],
            slower: Slower::default(),
            reaches,
            ample,
            seqs: BTreeMap::new(),
            next: 0,
        }
    }

    /// Does something to one of the open sequences, if there are any.
    fn on(&mut self, which: usize, act: impl FnOnce(&mut Self, SeqId)) {
        let seq = self.seqs.keys().nth(which % self.seqs.len().max(1));
        if let Some(&seq) = seq {
            act(self, seq);
        }
    }

    /// All there is to the ledger, to see that a refusal changed nothing.
    fn picture(&self) -> String {
        match self.ample {
            // Too much to print at every move, and the tiny pools see all refusals.
            true => String::new(),
            false => format!("{:?}", self.ledger),
        }
    }

    fn fresh(&mut self) -> SeqId {
        self.next += 1;
        SeqId(self.next)
    }

    pub(crate) fn apply(&mut self, step: Move) {
        match step {
            Move::Open { shared, own, kind } => self.open(shared, own, kind),
            Move::Step { which, len } => self.on(which, |world, seq| world.step(seq, len)),
            Move::Close { which, tail } => self.on(which, |world, seq| world.close(seq, tail)),
            Move::Fork { which } => self.on(which, Self::fork),
            Move::Truncate { which, back } => {
                self.on(which, |world, seq| world.truncate(seq, back));
            }
            Move::Discard { which } => self.on(which, Self::discard),
            Move::Adopt { shared, own, kind, blocks } => self.adopt(&prompt(shared, own, kind), blocks),
            Move::Fetch { shared, own, kind, seed } => self.fetch(&prompt(shared, own, kind), seed),
            Move::GiveUp { keep } if !self.ample => self.give_up(keep),
            Move::GiveUp { .. } => {}
        }
        self.ledger.check();
        self.nobody_lost_a_place();
        self.hears_the_news();
        for seq in self.seqs.keys() {
            self.sees_its_past(*seq, self.seqs[seq].computed);
        }
    }

    fn open(&mut self, shared: usize, own: usize, kind: u32) {
        if self.seqs.len() == 6 {
            return;
        }
        let tokens = prompt(shared, own, kind);
        let hit = self.ledger.hit(&tokens);
        assert!(hit < tokens.len());
        let best = self.best_hit(&tokens);
        assert!(hit == best || (!self.ample && hit < best), "hit {hit}, best {best}");
        let seq = self.fresh();
        self.ledger.open(seq, &tokens, hit);
        let tail = if hit.is_multiple_of(BLOCK) { Vec::new() } else { tokens[..hit].to_vec() };
        self.tails.iter_mut().for_each(|tails| {
            tails.remove(&tokens[..hit]);
        });
        self.seqs.insert(seq, Seq { tokens, computed: hit, disowned: BTreeSet::new(), tail });
    }

    fn close(&mut self, seq: SeqId, tail: bool) {
        let own = self.seqs.remove(&seq).expect("open");
        let done = &own.tokens[..own.computed];
        if !tail {
            return self.ledger.close(seq);
        }
        self.ledger.close_with_tail(seq, done);
        if !done.len().is_multiple_of(BLOCK) {
            for g in 0..self.reaches.len() {
                let new = self.tails[g].insert(done.to_vec());
                let key = self.was_named(GroupId(g as u32), done, done.len() / BLOCK);
                // One that may have been evicted since it was told of may be told of again.
                if new && self.ample {
                    self.slower.owed.insert(key);
                }
            }
        }
    }

    /// The hit rule, spelled out.
    fn best_hit(&self, tokens: &[u32]) -> usize {
        let known = |len: usize| {
            self.reaches.iter().zip(&self.sealed).all(|(&reach, sealed)| {
                let needed = sees(reach, len).into_iter();
                needed.map(|p| (p / BLOCK + 1) * BLOCK).all(|end| sealed.contains(&tokens[..end]))
            })
        };
        let whole = (0..tokens.len()).rev().filter(|len| len % BLOCK == 0).find(|&len| known(len)).unwrap_or(0);
        let tail = |len: &usize| self.tails.iter().all(|tails| tails.contains(&tokens[..*len]));
        (whole + 1..tokens.len().min(whole + BLOCK)).rev().find(tail).unwrap_or(whole)
    }

    fn step(&mut self, seq: SeqId, len: usize) {
        let own = self.seqs.get_mut(&seq).expect("open");
        let (start, end) = (own.computed, own.computed + len);
        while own.tokens.len() < end {
            own.tokens.push((own.tokens.len() as u32 + seq.0 as u32) % 3);
        }
        let before = self.picture();
        if self.ledger.grow(seq, end).is_err() {
            assert!(!self.ample);
            assert_eq!(before, self.picture(), "a refused grow changed something");
            return;
        }
        self.hears_who_lost_a_place();
        let tokens = self.seqs[&seq].tokens.clone();
        for pos in start..end {
            for g in 0..self.reaches.len() {
                let Slot(slot) = self.ledger.table(seq, GroupId(g as u32)).slot(pos, BLOCK);
                self.memory[g][slot as usize] = Some((history(&tokens[..=pos]), pos));
            }
        }
        (start..end).for_each(|pos| self.sees_its_past(seq, pos));
        self.ledger.seal(seq, &tokens, end);
        self.seqs.get_mut(&seq).expect("open").computed = end;
        for full in start / BLOCK + 1..=end / BLOCK {
            self.sealed.iter_mut().for_each(|sealed| {
                sealed.insert(tokens[..full * BLOCK].to_vec());
            });
        }
        self.was_sealed(&tokens, start / BLOCK..end / BLOCK);
    }

    fn fork(&mut self, seq: SeqId) {
        let new = self.fresh();
        let own = self.seqs[&seq].clone();
        match self.ledger.fork(seq, new) {
            Ok(shared) => {
                assert_eq!(shared, own.computed / BLOCK * BLOCK);
                self.seqs.insert(new, Seq { computed: shared, ..own });
                self.sees_its_past(new, shared);
            }
            Err(Uncut::Forgotten { group, from }) => {
                let at = own.computed / BLOCK * BLOCK;
                self.was_forgotten(seq, group, from, at);
            }
            Err(Uncut::Shared { .. }) => panic!("a fork reopens nothing"),
        }
    }

    fn truncate(&mut self, seq: SeqId, back: usize) {
        let own = self.seqs[&seq].clone();
        let len = own.computed.saturating_sub(back);
        let edge = (len / BLOCK + 1) * BLOCK;
        let before = self.picture();
        match self.ledger.truncate(seq, len) {
            Ok(()) => {
                if !len.is_multiple_of(BLOCK) && edge <= own.computed && !own.disowned.contains(&(len / BLOCK)) {
                    self.sealed.iter_mut().for_each(|sealed| {
                        sealed.remove(&own.tokens[..edge]);
                    });
                }
                let own = self.seqs.get_mut(&seq).expect("open");
                own.tokens.truncate(len);
                own.computed = len;
                own.disowned.retain(|&block| block < len / BLOCK);
                return;
            }
            Err(Uncut::Forgotten { group, from }) => self.was_forgotten(seq, group, from, len),
            Err(Uncut::Shared { .. }) => {
                let prefix = &own.tokens[..edge];
                let sharers = self.seqs.values().filter(|s| s.computed >= edge && s.tokens.starts_with(prefix));
                assert!(!len.is_multiple_of(BLOCK) && sharers.count() > 1);
            }
        }
        assert_eq!(before, self.picture(), "a refused cut changed something");
    }

    /// A refusal is right only if the token at `len` sees something that was forgotten, or has its own place there:
    /// before `from`, but not kept from the start.
    fn was_forgotten(&self, seq: SeqId, group: GroupId, from: usize, len: usize) {
        let reach = self.reaches[group.index()];
        let start = match reach {
            Reach::Keep { first, .. } => first.div_ceil(BLOCK) * BLOCK,
            _ => 0,
        };
        let mut needs = sees(reach, len).into_iter().chain([len]);
        assert!(needs.any(|p| p >= start && p < from), "{reach:?} from {from} cut {len}");
        assert_eq!(start + self.ledger.table(seq, group).forgotten() * BLOCK, from);
    }

    fn discard(&mut self, seq: SeqId) {
        self.ledger.discard(seq);
        let own = self.seqs.remove(&seq).expect("open");
        self.was_disowned(&own.tokens[..own.computed], &own.tail);
        self.tails.iter_mut().for_each(|tails| {
            tails.remove(&own.tail);
        });
        for block in 0..own.computed / BLOCK {
            let prefix = &own.tokens[..(block + 1) * BLOCK];
            let known = self.sealed.iter_mut().map(|sealed| sealed.remove(prefix));
            if known.fold(false, |any, known| any | known) {
                let holders = self.seqs.values_mut();
                holders.filter(|s| s.computed >= prefix.len() && s.tokens.starts_with(prefix)).for_each(|s| {
                    s.disowned.insert(block);
                });
            }
        }
    }

    /// From the end to the beginning, in every group, as the content is.
    fn adopt(&mut self, tokens: &[u32], blocks: usize) {
        let trail = self.ledger.trail(tokens);
        for block in (0..blocks.min(trail.blocks())).rev() {
            for g in 0..self.reaches.len() {
                let adopted = self.bring(&trail, tokens, (GroupId(g as u32), block));
                assert!(
                    adopted || !self.ample || self.sealed[g].contains(&tokens[..(block + 1) * BLOCK]),
                    "there was room"
                );
                self.sealed[g].insert(tokens[..(block + 1) * BLOCK].to_vec());
            }
        }
    }

    /// Adopts one block and writes it.
    pub(crate) fn bring(&mut self, trail: &Trail, tokens: &[u32], (group, block): (GroupId, usize)) -> bool {
        let (start, end) = (block * BLOCK, tokens.len().min((block + 1) * BLOCK));
        let adopted = self.ledger.adopt(group, trail, block, &tokens[start..end]);
        self.hears_who_lost_a_place();
        let Some(id) = adopted else { return false };
        for pos in start..end {
            self.memory[group.index()][id.index() * BLOCK + pos % BLOCK] = Some((history(&tokens[..=pos]), pos));
        }
        let known = if end - start == BLOCK { &mut self.sealed } else { &mut self.tails };
        known[group.index()].insert(tokens[..end].to_vec());
        self.was_named(group, tokens, block);
        true
    }

    /// What is given up is gone from memory, and the rest has to be as it was.
    fn give_up(&mut self, keep: usize) {
        for g in 0..self.reaches.len() {
            let group = GroupId(g as u32);
            let (idle, spare) = (self.ledger.idle_blocks(group), self.ledger.spare_blocks(group));
            let free = self.ledger.free_blocks(group);
            let gone = self.ledger.give_up(group, keep);
            assert!(gone.is_sorted() && gone.len() == spare - idle.min(keep));
            assert_eq!((self.ledger.idle_blocks(group), self.ledger.free_blocks(group)), (idle.min(keep), free));
            for id in &gone {
                self.memory[g][id.index() * BLOCK..][..BLOCK].fill(None);
            }
            // Whatever holds content and was not given up is held or can still be found.
            let left = self.memory[g].chunks(BLOCK).filter(|block| block[0].is_some()).count();
            assert!(left <= self.ledger.blocks(group) - free + idle.min(keep), "content that nobody can give up");
        }
    }

    /// The token at `pos` finds every position it sees, with its own history.
    fn sees_its_past(&self, seq: SeqId, pos: usize) {
        let tokens = &self.seqs[&seq].tokens;
        for (g, &reach) in self.reaches.iter().enumerate() {
            let table = self.ledger.table(seq, GroupId(g as u32));
            for p in sees(reach, pos) {
                let found = self.memory[g][table.slot(p, BLOCK).0 as usize];
                assert_eq!(found, Some((history(&tokens[..=p]), p)), "{seq:?} at {pos} group {g}");
            }
        }
    }
}
