//! Hits, growth and sealing, case by case; blocks of 4 throughout.

use super::{Full, GroupSize, Ledger};
use crate::{GroupId, Reach, Salt, SeqId, Uncut};

const A: SeqId = SeqId(1);
const B: SeqId = SeqId(2);
const ALL: Reach = Reach::All;

fn ledger(reaches: &[Reach], blocks: usize) -> Ledger {
    let sizes: Vec<GroupSize> = reaches.iter().map(|&reach| GroupSize { reach, blocks }).collect();
    Ledger::new(4, &sizes, Salt::of(&[("test", b"")]))
}

fn tokens(len: usize) -> Vec<u32> {
    (0..len as u32).collect()
}

/// Opens `seq` on its hit and computes it to `len`, `step` tokens at a time.
fn compute(ledger: &mut Ledger, seq: SeqId, tokens: &[u32], step: usize) -> usize {
    let hit = ledger.hit(tokens);
    ledger.open(seq, tokens, hit);
    let mut computed = hit;
    while computed < tokens.len() {
        computed = (computed + step).min(tokens.len());
        ledger.grow(seq, computed).unwrap();
        ledger.seal(seq, tokens, computed);
        ledger.check();
    }
    hit
}

fn live(ledger: &Ledger, seq: SeqId, group: u32) -> (usize, Vec<u32>) {
    let table = ledger.table(seq, GroupId(group));
    (table.forgotten(), table.live().map(|id| id.0).collect())
}

/// After a prompt of `first` tokens, how many of `then` are known?
fn check_hit(reaches: &[Reach], first: usize, then: &[u32], expected: usize) {
    let mut ledger = ledger(reaches, 40);
    compute(&mut ledger, A, &tokens(first), 3);
    assert_eq!(ledger.hit(then), expected, "while it runs");
    ledger.close(A);
    ledger.check();
    assert_eq!(ledger.hit(then), expected, "{reaches:?} {first}");
    assert_eq!(compute(&mut ledger, B, then, 5), expected);
}

/// Exact repeats and shorter prompts leave at least one token to compute.
#[test]
fn shorter_and_equal_prompts() {
    for reaches in [&[ALL][..], &[Reach::Last(7)], &[ALL, Reach::Last(5)]] {
        for (len, expected) in [(64, 60), (63, 60), (65, 64), (48, 44), (47, 44), (16, 12), (5, 4), (4, 0), (1, 0)] {
            check_hit(reaches, 64, &tokens(len), expected);
        }
        check_hit(reaches, 64, &tokens(100), 64);
    }
}

#[test]
fn empty_prompt_hits_nothing() {
    check_hit(&[ALL], 64, &[0], 0);
    assert_eq!(ledger(&[ALL], 4).hit(&[]), 0);
}

#[test]
fn a_hit_ends_where_tokens_differ() {
    for at in 0..12 {
        let mut other = tokens(16);
        other[at] = 99;
        check_hit(&[ALL, Reach::Last(3)], 16, &other, at / 4 * 4);
    }
}

/// A long answer, then a prompt that shares only its start: each group must still have what that place needs.
/// Caught: a hit that asks `Last` groups for nothing.
#[test]
fn a_window_that_lost_the_place_is_no_hit() {
    let mut ledger = Ledger::new(
        4,
        &[GroupSize { reach: ALL, blocks: 40 }, GroupSize { reach: Reach::Last(6), blocks: 4 }],
        Salt::of(&[]),
    );
    compute(&mut ledger, A, &tokens(100), 2);
    ledger.close(A);
    let mut shorter = tokens(40);
    shorter.extend([7; 10]);
    assert_eq!(ledger.hit(&shorter), 0, "blocks 8 and 9 of the window group were evicted");
    assert_eq!(ledger.hit(&tokens(101)), 100, "the end is still there");
    compute(&mut ledger, B, &shorter, 2);
    ledger.close(B);
    assert_eq!(ledger.hit(&shorter), 48);
}

#[test]
fn salt_group_and_block_size_keep_caches_apart() {
    let mut one = ledger(&[ALL, ALL], 8);
    compute(&mut one, A, &tokens(8), 8);
    let key = |l: &Ledger, g: usize| l.groups[g].root;
    assert_ne!(key(&one, 0), key(&one, 1));
    assert_ne!(key(&one, 0), key(&ledger(&[Reach::Last(9), ALL], 8), 0));
    let sizes = [GroupSize { reach: ALL, blocks: 8 }];
    let roots = [(4, &b"one"[..]), (4, b"two"), (8, b"one")]
        .map(|(block, weights)| key(&Ledger::new(block, &sizes, Salt::of(&[("weights", weights)])), 0));
    assert!(roots[0] != roots[1] && roots[0] != roots[2]);
}

#[test]
fn grow_is_all_or_nothing() {
    let sizes = [GroupSize { reach: ALL, blocks: 5 }, GroupSize { reach: ALL, blocks: 3 }];
    let mut ledger = Ledger::new(4, &sizes, Salt::of(&[]));
    ledger.open(A, &tokens(1), 0);
    assert_eq!(ledger.grow(A, 13), Err(Full));
    assert_eq!(live(&ledger, A, 0), (0, vec![]));
    assert_eq!(ledger.room(A), 12);
    assert_eq!(ledger.grow(A, 12), Ok(()));
    assert_eq!(ledger.grow(A, 3), Ok(()), "never shrinks");
    assert_eq!((ledger.free_blocks(GroupId(0)), ledger.free_blocks(GroupId(1))), (2, 0));
    ledger.check();
}

/// Which blocks stay after `len` tokens.
fn check_forgotten(w: usize, len: usize, forgotten: usize) {
    let mut ledger = ledger(&[Reach::Last(w)], 40);
    compute(&mut ledger, A, &tokens(len), 1);
    assert_eq!(ledger.table(A, GroupId(0)).forgotten(), forgotten, "window {w} at {len}");
}

/// Caught: forgetting what the last computed token sees rather than the next one, and one block early.
#[test]
fn a_window_keeps_what_the_next_token_sees() {
    for (w, len, forgotten) in [
        (1, 3, 0),
        (1, 4, 1),
        (2, 4, 0),
        (2, 5, 1),
        (4, 6, 0),
        (4, 7, 1),
        (4, 8, 1),
        (5, 7, 0),
        (5, 8, 1),
        (32, 34, 0),
        (32, 35, 1),
    ] {
        check_forgotten(w, len, forgotten);
    }
}

#[test]
fn running_sequences_share_sealed_blocks_only() {
    let mut ledger = ledger(&[ALL], 10);
    compute(&mut ledger, A, &tokens(10), 10);
    assert_eq!(compute(&mut ledger, B, &tokens(10), 10), 8);
    assert_eq!(live(&ledger, A, 0), (0, vec![0, 1, 2]));
    assert_eq!(live(&ledger, B, 0), (0, vec![0, 1, 3]));
}

#[test]
fn prompts_computed_side_by_side_become_one() {
    let mut ledger = ledger(&[ALL], 10);
    for seq in [A, B] {
        ledger.open(seq, &tokens(9), 0);
        ledger.grow(seq, 9).unwrap();
    }
    for seq in [A, B] {
        ledger.seal(seq, &tokens(9), 9);
        ledger.check();
    }
    assert_eq!(live(&ledger, A, 0), (0, vec![0, 1, 2]));
    assert_eq!(live(&ledger, B, 0), (0, vec![0, 1, 5]));
}

#[test]
fn a_chain_loses_its_tail_first() {
    let mut ledger = ledger(&[ALL], 5);
    compute(&mut ledger, A, &tokens(17), 17);
    ledger.close(A);
    for (taken, left) in [(2, 12), (3, 8), (4, 4), (5, 0)] {
        ledger.open(B, &[70], 0);
        ledger.grow(B, taken * 4).unwrap();
        assert_eq!(ledger.hit(&tokens(17)), left, "{taken} taken");
        ledger.close(B);
    }
}

#[test]
fn truncate_is_exact_or_refused() {
    let mut ledger = ledger(&[ALL, Reach::Last(6)], 20);
    compute(&mut ledger, A, &tokens(20), 1);
    let before = (live(&ledger, A, 0), live(&ledger, A, 1));
    let group = GroupId(1);
    assert_eq!(ledger.truncate(A, 16), Err(Uncut::Forgotten { group, from: 12 }));
    assert_eq!(before, (live(&ledger, A, 0), live(&ledger, A, 1)), "unharmed");
    assert_eq!(ledger.truncate(A, 18), Ok(()));
    ledger.check();
    assert_eq!(ledger.hit(&tokens(20)), 16, "block 4 was reopened");
    let mut other = tokens(18);
    other.extend([50, 51]);
    ledger.seal(A, &other, 20);
    ledger.check();
    other.push(0);
    assert_eq!(ledger.hit(&other), 20);
}

/// Nothing is seen from the very start, so it is always an exact cut; a window of one needs nothing at a block's edge.
/// Caught: a gap that stays longer than the sequence.
#[test]
fn a_cut_to_where_nothing_is_seen_is_exact() {
    for (reach, len) in [(Reach::Last(6), 0), (Reach::Last(1), 8), (Reach::Last(1), 0), (KEEP, 4), (KEEP, 3), (KEEP, 0)]
    {
        let mut ledger = ledger(&[reach], 20);
        compute(&mut ledger, A, &tokens(30), 1);
        assert_eq!(ledger.truncate(A, len), Ok(()), "{reach:?} to {len}");
        ledger.check();
        let mut other = tokens(len);
        other.extend([60; 20]);
        for computed in len + 1..=other.len() {
            ledger.grow(A, computed).unwrap();
            ledger.seal(A, &other, computed);
            ledger.check();
        }
    }
}

/// Two tokens kept, so one block; a window of three.
const KEEP: Reach = Reach::Keep { first: 2, last: 3 };

/// Caught: forgetting from the front instead of behind the kept blocks.
#[test]
fn kept_blocks_stay_and_the_rest_is_a_window() {
    let mut ledger = ledger(&[KEEP], 3);
    compute(&mut ledger, A, &tokens(40), 1);
    let table = ledger.table(A, GroupId(0));
    assert_eq!((table.kept(), table.gap(), table.end()), (1, 1..9, 10));
    assert_eq!(live(&ledger, A, 0).1[0], 0, "the first block is still the first");
    assert_eq!(ledger.capacity(), usize::MAX);
}

/// The start and the window count, what lies between does not.
/// Caught: a hit that asks for the window only.
#[test]
fn a_hit_needs_the_kept_start_and_the_window() {
    let sizes = [GroupSize { reach: KEEP, blocks: 4 }];
    let mut ledger = Ledger::new(4, &sizes, Salt::of(&[]));
    compute(&mut ledger, A, &tokens(40), 1);
    ledger.close(A);
    assert_eq!(ledger.hit(&tokens(41)), 40);
    assert_eq!(ledger.hit(&tokens(30)), 4, "block 6 was evicted, the start alone counts");
    assert_eq!(compute(&mut ledger, B, &tokens(44), 1), 40);
    ledger.close(B);
    // three new blocks leave one idle: the window goes before the start
    ledger.open(A, &[70], 0);
    ledger.grow(A, 12).unwrap();
    assert_eq!(ledger.free_blocks(GroupId(0)), 1);
    assert_eq!(ledger.hit(&tokens(45)), 4);
    ledger.grow(A, 16).unwrap();
    assert_eq!(ledger.hit(&tokens(45)), 0);
    ledger.check();
}

/// PFX-2: after a long answer the window lacks the place; the refusal leaves the source as it was, to go on or be found.
#[test]
fn a_refused_cut_leaves_the_source_unharmed() {
    for reaches in [[ALL, Reach::Last(6)], [Reach::Last(6), ALL], [KEEP, ALL], [ALL, KEEP]] {
        let mut ledger = ledger(&reaches, 40);
        compute(&mut ledger, A, &tokens(100), 7);
        let group = GroupId(reaches.iter().position(|&r| r != ALL).unwrap() as u32);
        let before = format!("{ledger:?}");
        assert!(matches!(ledger.truncate(A, 40), Err(Uncut::Forgotten { group: g, from: 92.. }) if g == group));
        assert_eq!(format!("{ledger:?}"), before);
        ledger.grow(A, 104).unwrap();
        ledger.seal(A, &tokens(104), 104);
        ledger.check();
        assert_eq!(ledger.hit(&tokens(105)), 104);
    }
}

/// Nothing of it is found again, also what it shares; who holds it goes on.
/// Caught: disowning only what the sequence sealed itself, and a shared block freed at once.
#[test]
fn discarded_blocks_are_not_found() {
    let mut ledger = ledger(&[ALL, Reach::Last(6)], 20);
    compute(&mut ledger, A, &tokens(21), 3);
    assert_eq!(compute(&mut ledger, B, &tokens(30), 3), 20);
    ledger.discard(A);
    ledger.check();
    assert_eq!(ledger.hit(&tokens(40)), 0);
    ledger.grow(B, 33).unwrap();
    ledger.seal(B, &tokens(33), 33);
    ledger.check();
    assert_eq!(compute(&mut ledger, A, &tokens(21), 3), 0, "computed anew");
    ledger.check();
    ledger.close(B);
    ledger.check();
    assert_eq!(ledger.hit(&tokens(21)), 20, "the new ones are found");
    ledger.close(A);
    ledger.check();
    assert_eq!(ledger.free_blocks(GroupId(0)), 20);
}

#[test]
fn truncate_does_not_reopen_a_shared_block() {
    let mut ledger = ledger(&[ALL], 20);
    compute(&mut ledger, A, &tokens(8), 8);
    compute(&mut ledger, B, &tokens(9), 9);
    assert_eq!(ledger.truncate(A, 6), Err(Uncut::Shared { group: GroupId(0) }));
    assert_eq!(ledger.truncate(A, 4), Ok(()));
    ledger.check();
    assert_eq!(ledger.hit(&tokens(9)), 8);
}

#[test]
fn fork_shares_up_to_the_sealed_boundary() {
    let mut ledger = ledger(&[ALL, Reach::Last(6)], 20);
    compute(&mut ledger, A, &tokens(8), 1);
    assert_eq!(ledger.fork(A, B), Ok(8));
    ledger.check();
    assert_eq!(live(&ledger, B, 0), (0, vec![0, 1]));
    ledger.grow(B, 11).unwrap();
    ledger.seal(B, &tokens(11), 11);
    ledger.check();
    assert_eq!(ledger.fork(B, SeqId(3)), Err(Uncut::Forgotten { group: GroupId(1), from: 4 }));
}

#[test]
fn capacity_is_what_one_sequence_alone_can_reach() {
    for (reaches, blocks, expected) in [
        (&[ALL][..], 5, 20),
        (&[ALL, Reach::Last(5)], 5, 20),
        (&[Reach::Last(5)], 2, usize::MAX),
        (&[Reach::Last(6)], 2, 8),
        (&[Reach::Last(6)], 3, usize::MAX),
    ] {
        assert_eq!(ledger(reaches, blocks).capacity(), expected, "{reaches:?}");
    }
}
