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
//!
//! Of what slower places are told and asked: a hole in a chain passed over, a kept start not asked for, or more
//! than those; room counted with held blocks, or without what is here of the prefix; a block told of twice, not at all, with another's place or
//! parent, or when it was given up; a discarded sequence told of in part, or as worth keeping; a trail freshened whole (found by 20 000 cases,
//! and by a test of its own).

mod slower;
mod world;

use omlx_blocks::Reach;
use proptest::prelude::*;

use crate::world::World;

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
    /// With or without its tail.
    Close {
        which: usize,
        tail: bool,
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
    /// Brings what a prompt lacks from a slower place that has most of what was ever sealed.
    Fetch {
        shared: usize,
        own: usize,
        kind: u32,
        seed: u64,
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
        2 => (which.clone(), any::<bool>()).prop_map(|(which, tail)| Move::Close { which, tail }),
        1 => which.clone().prop_map(|which| Move::Fork { which }),
        1 => (which.clone(), 0..40_usize).prop_map(|(which, back)| Move::Truncate { which, back }),
        1 => which.prop_map(|which| Move::Discard { which }),
        1 => (0..20_usize, 1..6_usize, 0..3_u32, 1..6_usize)
            .prop_map(|(shared, own, kind, blocks)| Move::Adopt { shared, own, kind, blocks }),
        3 => (0..20_usize, 1..6_usize, 0..3_u32, any::<u64>())
            .prop_map(|(shared, own, kind, seed)| Move::Fetch { shared, own, kind, seed }),
        1 => (0..4_usize).prop_map(|keep| Move::GiveUp { keep }),
    ];
    prop::collection::vec(one, 1..60)
}

fn groups() -> impl Strategy<Value = Vec<Reach>> {
    let keep = (0..9_usize, 1..12_usize).prop_map(|(first, last)| Reach::Keep { first, last });
    let reach = prop_oneof![Just(Reach::All), (1..12_usize).prop_map(Reach::Last), keep];
    prop::collection::vec(reach, 1..4)
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
