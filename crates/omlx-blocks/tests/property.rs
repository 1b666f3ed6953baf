//! Random moves on a ledger against a naive cache: one `Vec` of tokens per sequence.
//!
//! A pool memory is written through the slots. Each entry is a hash over everything up to its token, so a stale block, a block held
//! twice or a hit on other tokens reads back wrong. After every move `check()` runs and each open sequence must see
//! exactly its own past.
//!
//! Windows are of 1 to 12 tokens, so also of less than a block and of up to three, with and without a kept start.
//!
//! Faults planted one at a time and seen to be caught: forgetting one block early (panics in `slot`), a window off by
//! one in `first_visible`, a slot off by one, a hit that asks windows for nothing, `grow` that asks one group only, a
//! shared block freed by its first holder, eviction that leaves the name, `fork` and `truncate` that ignore what was
//! forgotten; forgetting kept blocks, a kept start rounded down to whole blocks, a hit that asks for the window only, a gap
//! longer than the sequence after a cut; `discard` that leaves names, a disowned block that becomes findable when it is
//! released or takes another's name along; adopting a known block; a trail that begins anew when it is followed; a fork that takes
//! the open block along; a held block given up, and a name kept of one that was.

use std::collections::{BTreeMap, BTreeSet};

use omlx_blocks::{GroupId, GroupSize, Ledger, Reach, Salt, SeqId, Slot, Uncut};
use proptest::prelude::*;

const BLOCK: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Move {
    /// A prompt: `shared` tokens that others have too, then its own.
    Open {
        shared: usize,
        own: usize,
        kind: u32,
    },
    Step {
        which: usize,
        len: usize,
    },
    Close {
        which: usize,
    },
    Fork {
        which: usize,
    },
    Truncate {
        which: usize,
        back: usize,
    },
    /// Ends a sequence whose content is bad.
    Discard {
        which: usize,
    },
    /// Brings `blocks` blocks of a prompt from elsewhere.
    Adopt {
        shared: usize,
        own: usize,
        kind: u32,
        blocks: usize,
    },
    /// Memory is short: all but `keep` of the idle blocks of each group go. Not in ample pools, where nothing ever does.
    GiveUp {
        keep: usize,
    },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let which = 0..8_usize;
    let one = prop_oneof![
        3 => (0..20_usize, 1..6_usize, 0..3_u32).prop_map(|(shared, own, kind)| Move::Open { shared, own, kind }),
        8 => (which.clone(), 1..10_usize).prop_map(|(which, len)| Move::Step { which, len }),
        2 => which.clone().prop_map(|which| Move::Close { which }),
        1 => which.clone().prop_map(|which| Move::Fork { which }),
        1 => (which.clone(), 0..40_usize).prop_map(|(which, back)| Move::Truncate { which, back }),
        1 => which.prop_map(|which| Move::Discard { which }),
        1 => (0..20_usize, 1..6_usize, 0..3_u32, 1..6_usize)
            .prop_map(|(shared, own, kind, blocks)| Move::Adopt { shared, own, kind, blocks }),
        1 => (0..4_usize).prop_map(|keep| Move::GiveUp { keep }),
    ];
    prop::collection::vec(one, 1..60)
}

fn groups() -> impl Strategy<Value = Vec<Reach>> {
    let keep = (0..9_usize, 1..12_usize).prop_map(|(first, last)| Reach::Keep { first, last });
    let reach = prop_oneof![Just(Reach::All), (1..12_usize).prop_map(Reach::Last), keep];
    prop::collection::vec(reach, 1..4)
}

#[derive(Clone, Debug)]
struct Seq {
    tokens: Vec<u32>,
    computed: usize,
    /// Blocks it holds that were discarded by another: nobody finds them, and others may have computed them anew.
    disowned: BTreeSet<usize>,
}

struct World {
    ledger: Ledger,
    reaches: Vec<Reach>,
    /// Nothing is ever evicted, so a hit must be as long as it can be.
    ample: bool,
    memory: Vec<Vec<Option<(u64, usize)>>>,
    seqs: BTreeMap<SeqId, Seq>,
    /// Every prefix that some sequence has sealed.
    sealed: BTreeSet<Vec<u32>>,
    next: u64,
}

/// What the token at `pos` sees before itself, by the sentence and not by the code under test.
fn sees(reach: Reach, pos: usize) -> Vec<usize> {
    let near = |p: &usize| match reach {
        Reach::All => true,
        Reach::Last(w) => p + w > pos,
        Reach::Keep { first, last } => p + last > pos || *p < first,
    };
    (0..pos).filter(near).collect()
}

fn prompt(shared: usize, own: usize, kind: u32) -> Vec<u32> {
    let mut tokens: Vec<u32> = (0..shared as u32).map(|p| p % 5).collect();
    tokens.extend((0..own as u32).map(|p| 10 + kind + p % 2));
    tokens
}

fn history(tokens: &[u32]) -> u64 {
    tokens
        .iter()
        .fold(17, |hash: u64, &token| (hash ^ u64::from(token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23))
}

impl World {
    fn new(reaches: Vec<Reach>, blocks: usize, ample: bool) -> Self {
        let size = |&reach: &Reach| GroupSize { reach, blocks };
        let sizes: Vec<GroupSize> = reaches.iter().map(size).collect();
        Self {
            ledger: Ledger::new(BLOCK, &sizes, Salt::of(&[("test", b"property")])),
            memory: vec![vec![None; blocks * BLOCK]; reaches.len()],
            reaches,
            ample,
            seqs: BTreeMap::new(),
            sealed: BTreeSet::new(),
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

    fn apply(&mut self, step: Move) {
        match step {
            Move::Open { shared, own, kind } => self.open(shared, own, kind),
            Move::Step { which, len } => self.on(which, |world, seq| world.step(seq, len)),
            Move::Close { which } => self.on(which, |world, seq| {
                world.ledger.close(seq);
                world.seqs.remove(&seq);
            }),
            Move::Fork { which } => self.on(which, Self::fork),
            Move::Truncate { which, back } => {
                self.on(which, |world, seq| world.truncate(seq, back));
            }
            Move::Discard { which } => self.on(which, Self::discard),
            Move::Adopt { shared, own, kind, blocks } => self.adopt(&prompt(shared, own, kind), blocks),
            Move::GiveUp { keep } if !self.ample => self.give_up(keep),
            Move::GiveUp { .. } => {}
        }
        self.ledger.check();
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
        assert!(hit < tokens.len() && hit.is_multiple_of(BLOCK));
        let best = self.best_hit(&tokens);
        assert!(hit == best || (!self.ample && hit < best), "hit {hit}, best {best}");
        let seq = self.fresh();
        self.ledger.open(seq, &tokens, hit);
        self.seqs.insert(seq, Seq { tokens, computed: hit, disowned: BTreeSet::new() });
    }

    /// The hit rule, spelled out.
    fn best_hit(&self, tokens: &[u32]) -> usize {
        let known = |len: usize| {
            self.reaches.iter().all(|&reach| {
                let needed = sees(reach, len).into_iter();
                needed.map(|p| (p / BLOCK + 1) * BLOCK).all(|end| self.sealed.contains(&tokens[..end]))
            })
        };
        (0..tokens.len()).rev().filter(|len| len % BLOCK == 0).find(|&len| known(len)).unwrap_or(0)
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
            self.sealed.insert(tokens[..full * BLOCK].to_vec());
        }
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
                    self.sealed.remove(&own.tokens[..edge]);
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
        for block in 0..own.computed / BLOCK {
            let prefix = &own.tokens[..(block + 1) * BLOCK];
            if self.sealed.remove(prefix) {
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
            let end = (block + 1) * BLOCK;
            let mut everywhere = true;
            for g in 0..self.reaches.len() {
                let group = GroupId(g as u32);
                let adopted = self.ledger.adopt(group, &trail, block, &tokens[end - BLOCK..end]);
                if let Some(id) = adopted {
                    for pos in end - BLOCK..end {
                        let slot = id.index() * BLOCK + pos % BLOCK;
                        self.memory[g][slot] = Some((history(&tokens[..=pos]), pos));
                    }
                }
                everywhere &= adopted.is_some() || self.sealed.contains(&tokens[..end]);
            }
            assert!(everywhere || !self.ample, "there was room");
            self.sealed.insert(tokens[..end].to_vec());
        }
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tiny_pools(reaches in groups(), blocks in 1..14_usize, moves in moves()) {
        let mut world = World::new(reaches, blocks, false);
        moves.into_iter().for_each(|step| world.apply(step));
    }

    #[test]
    fn ample_pools_hit_all_they_could(reaches in groups(), moves in moves()) {
        let mut world = World::new(reaches, 600, true);
        moves.into_iter().for_each(|step| world.apply(step));
    }
}
