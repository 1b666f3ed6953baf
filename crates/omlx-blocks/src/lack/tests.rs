//! What is asked for, case by case; blocks of 4 throughout, and prompts that begin with 0, 1, 2, …
//!
//! Seen to fail: a hole in the middle of a chain passed over; blocks asked for that a window has moved past; a kept start not asked for;
//! what is here asked for again; room counted with blocks that are held, or with those of the prefix that are here.

use super::Lack;
use crate::{BlockKey, GroupId, GroupSize, Ledger, Reach, Salt, SeqId};

const ALL: Reach = Reach::All;
const KEEP: Reach = Reach::Keep { first: 3, last: 2 };

fn ledger(reaches: &[Reach], blocks: usize) -> Ledger {
    let sizes: Vec<GroupSize> = reaches.iter().map(|&reach| GroupSize { reach, blocks }).collect();
    Ledger::new(4, &sizes, Salt::of(&[]))
}

fn tokens(len: usize) -> Vec<u32> {
    (0..len as u32).collect()
}

/// A sequence that has computed all its tokens.
fn compute(ledger: &mut Ledger, seq: u64, tokens: &[u32]) -> SeqId {
    let seq = SeqId(seq);
    ledger.open(seq, tokens, 0);
    ledger.grow(seq, tokens.len()).unwrap();
    ledger.seal(seq, tokens, tokens.len());
    seq
}

/// What a prompt of `len` tokens lacks, where `elsewhere` names blocks by group and index.
fn lack(ledger: &Ledger, len: usize, elsewhere: &[(u32, usize)]) -> Lack {
    let tokens = tokens(len);
    let trail = ledger.trail(&tokens);
    let there = |key: &BlockKey| elsewhere.iter().any(|&(g, i)| trail.keys(GroupId(g)).get(i) == Some(key));
    ledger.lack(&trail, &tokens, &there)
}

fn check(ledger: &Ledger, len: usize, elsewhere: &[(u32, usize)], found: (usize, usize, &[(u32, usize)])) {
    let (here, there, blocks) = found;
    let blocks = blocks.iter().map(|&(g, i)| (GroupId(g), i)).collect();
    assert_eq!(lack(ledger, len, elsewhere), Lack { here, there, blocks }, "{len} tokens, {elsewhere:?} elsewhere");
}

const CHAIN: [(u32, usize); 5] = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)];

#[test]
fn a_chain_as_far_as_it_has_no_hole() {
    let ledger = ledger(&[ALL], 9);
    check(&ledger, 21, &[], (0, 0, &[]));
    check(&ledger, 21, &CHAIN, (0, 20, &CHAIN));
    check(&ledger, 21, &CHAIN[..2], (0, 8, &CHAIN[..2]));
    check(&ledger, 21, &CHAIN[1..], (0, 0, &[]));
    check(&ledger, 21, &[(0, 0), (0, 2), (0, 3)], (0, 4, &CHAIN[..1]));
    // At least one token is left to compute.
    check(&ledger, 20, &CHAIN, (0, 16, &CHAIN[..4]));
    check(&ledger, 5, &CHAIN, (0, 4, &CHAIN[..1]));
    check(&ledger, 4, &CHAIN, (0, 0, &[]));
    check(&ledger, 0, &CHAIN, (0, 0, &[]));
}

#[test]
fn a_window_needs_what_its_end_sees() {
    for (reach, elsewhere, there, blocks) in [
        (Reach::Last(5), &[(0, 3)][..], 16, &[(0, 3)][..]),
        (Reach::Last(5), &CHAIN, 20, &[(0, 4)]),
        (Reach::Last(6), &CHAIN, 20, &[(0, 3), (0, 4)]),
        (Reach::Last(6), &[(0, 1), (0, 2), (0, 4)], 12, &[(0, 1), (0, 2)]),
        (Reach::Last(6), &[(0, 0), (0, 3)], 4, &[(0, 0)]),
        (Reach::Last(6), &[(0, 1), (0, 3)], 0, &[]),
        (KEEP, &[(0, 3)], 0, &[]),
        (KEEP, &[(0, 0), (0, 3)], 16, &[(0, 0), (0, 3)]),
        (KEEP, &CHAIN, 20, &[(0, 0), (0, 4)]),
    ] {
        check(&ledger(&[reach], 9), 21, elsewhere, (0, there, blocks));
    }
    // Nothing is seen but the token itself: the end of any prompt is known without a fetch.
    check(&ledger(&[Reach::Last(1)], 9), 21, &CHAIN, (20, 20, &[]));
}

#[test]
fn every_group_has_to_have_it() {
    let ledger = ledger(&[ALL, Reach::Last(5), KEEP], 9);
    let mut elsewhere = CHAIN.to_vec();
    elsewhere.extend([(1, 2), (1, 4), (2, 0), (2, 2)]);
    check(&ledger, 21, &elsewhere, (0, 12, &[(0, 0), (0, 1), (0, 2), (1, 2), (2, 0), (2, 2)]));
    elsewhere.push((2, 4));
    let all = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 4), (2, 0), (2, 4)];
    check(&ledger, 21, &elsewhere, (0, 20, &all));
}

#[test]
fn what_is_here_is_not_asked_for() {
    let mut ledger = ledger(&[ALL, Reach::Last(5)], 9);
    let seq = compute(&mut ledger, 1, &tokens(9));
    let both = [&CHAIN[..], &[(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)]].concat();
    for _ in 0..2 {
        check(&ledger, 21, &both, (8, 20, &[(0, 2), (0, 3), (0, 4), (1, 4)]));
        check(&ledger, 21, &CHAIN, (8, 8, &[]));
        check(&ledger, 9, &both, (8, 8, &[]));
        if ledger.idle_blocks(GroupId(0)) == 0 {
            ledger.close(seq);
        }
    }
}

/// Four blocks. Held ones leave no room, whoever holds them; what is idle of the prefix itself is not to make room for the rest.
#[test]
fn no_more_than_there_is_room_for() {
    let mut ledger = ledger(&[ALL], 4);
    let other = compute(&mut ledger, 1, &[90; 8]);
    check(&ledger, 21, &CHAIN, (0, 8, &CHAIN[..2]));
    ledger.close(other);
    check(&ledger, 21, &CHAIN, (0, 16, &CHAIN[..4]));
    let own = compute(&mut ledger, 2, &tokens(8));
    check(&ledger, 21, &CHAIN, (8, 16, &CHAIN[2..4]));
    ledger.close(own);
    check(&ledger, 21, &CHAIN, (8, 16, &CHAIN[2..4]));
}

/// Where the longest prefix has no room, a shorter one may have; of a window the other way round, too.
#[test]
fn room_is_counted_at_each_end() {
    let mut ledger = ledger(&[Reach::Last(9)], 3);
    let own = compute(&mut ledger, 1, &tokens(8));
    ledger.close(own);
    // At 12 tokens blocks 1 and 2 are needed, at 16 blocks 2 and 3: block 1 may go then.
    check(&ledger, 13, &[(0, 2)], (8, 12, &[(0, 2)]));
    check(&ledger, 17, &[(0, 2), (0, 3)], (8, 16, &[(0, 2), (0, 3)]));
    compute(&mut ledger, 2, &[90; 8]); // in the places of block 1 and of nobody
    check(&ledger, 17, &[(0, 1), (0, 2), (0, 3)], (4, 4, &[]));
}

#[test]
fn names_that_were_disowned_are_asked_for_again() {
    let mut ledger = ledger(&[ALL], 5);
    let seq = compute(&mut ledger, 1, &tokens(9));
    let key = ledger.trail(&tokens(9)).keys(GroupId(0))[1];
    ledger.disown(GroupId(0), &key);
    check(&ledger, 13, &CHAIN, (4, 12, &CHAIN[1..3]));
    ledger.close(seq);
    check(&ledger, 13, &CHAIN, (4, 12, &CHAIN[1..3]));
}
