//! Tails case by case; blocks of 4 throughout, and prompts that begin with 0, 1, 2, …
//!
//! Seen to fail: a tail found with other tokens before it; the shortest tail taken in place of the longest; a tail that is
//! found again while somebody writes to it; the last token of a prompt found; one group's tail enough for all; a discarded
//! sequence that leaves the tail it began with.

use crate::{Evicted, GroupId, GroupSize, Ledger, News, Reach, Salt, SeqId};

const FIRST: GroupId = GroupId(0);
const A: SeqId = SeqId(1);
const B: SeqId = SeqId(2);
const C: SeqId = SeqId(3);

fn ledger(reaches: &[Reach], blocks: usize) -> Ledger {
    let sizes: Vec<GroupSize> = reaches.iter().map(|&reach| GroupSize { reach, blocks }).collect();
    let mut ledger = Ledger::new(4, &sizes, Salt::of(&[]));
    ledger.listen();
    ledger
}

fn tokens(len: usize) -> Vec<u32> {
    (0..len as u32).collect()
}

/// A sequence that computes all its tokens and ends; answers what it began with.
fn compute(ledger: &mut Ledger, seq: SeqId, tokens: &[u32]) -> usize {
    let hit = ledger.hit(tokens);
    ledger.open(seq, tokens, hit);
    ledger.grow(seq, tokens.len()).unwrap();
    ledger.seal(seq, tokens, tokens.len());
    ledger.check();
    ledger.close_with_tail(seq, tokens);
    ledger.check();
    hit
}

#[test]
fn a_longer_prompt_goes_on_in_the_middle_of_a_block() {
    for reaches in [&[Reach::All][..], &[Reach::All, Reach::Last(3), Reach::Keep { first: 2, last: 9 }]] {
        for (first, second, expected) in [
            (6, 9, 6),
            (6, 7, 6),
            (6, 6, 4),
            (6, 5, 4),
            (3, 5, 3),
            (3, 3, 0),
            (8, 9, 8),
            (7, 20, 7),
            (15, 16, 15),
            (1, 2, 1),
        ] {
            let mut ledger = ledger(reaches, 9);
            compute(&mut ledger, A, &tokens(first));
            assert_eq!(compute(&mut ledger, B, &tokens(second)), expected, "{second} tokens after {first}");
            // What it filled has a whole block's name now.
            let whole = second / 4 * 4;
            assert_eq!(ledger.hit(&tokens(whole + 1)), whole);
        }
    }
}

#[test]
fn a_tail_belongs_to_what_stands_before_it() {
    let mut ledger = ledger(&[Reach::All], 9);
    compute(&mut ledger, A, &tokens(6));
    let mut other = tokens(9);
    other[1] = 90;
    assert_eq!(ledger.hit(&other), 0);
    let mut other = tokens(9);
    other[5] = 90;
    assert_eq!(ledger.hit(&other), 4);
}

#[test]
fn the_longest_of_several_counts() {
    let mut ledger = ledger(&[Reach::All, Reach::Last(6)], 9);
    for len in [5, 7, 6] {
        let tokens = tokens(len);
        let seq = SeqId(len as u64);
        ledger.open(seq, &tokens, 0);
        ledger.grow(seq, len).unwrap();
        ledger.seal(seq, &tokens, len);
        ledger.close_with_tail(seq, &tokens);
        ledger.check();
    }
    for (len, hit) in [(12, 7), (8, 7), (7, 6), (6, 5), (5, 4)] {
        assert_eq!(ledger.hit(&tokens(len)), hit, "{len} tokens");
    }
}

/// One takes it; the other computes those tokens again, and where both go on alike the whole block is one again.
#[test]
fn nobody_shares_a_tail() {
    let mut ledger = ledger(&[Reach::All], 9);
    compute(&mut ledger, A, &tokens(6));
    let text = tokens(9);
    ledger.open(B, &text, ledger.hit(&text));
    assert_eq!((ledger.hit(&text), ledger.table(B, FIRST).end()), (4, 2));
    ledger.open(C, &text, 4);
    for seq in [B, C] {
        ledger.grow(seq, 9).unwrap();
        ledger.seal(seq, &text, 9);
        ledger.check();
    }
    let second = |seq| ledger.table(seq, FIRST).live().nth(1);
    assert_eq!(second(B), second(C));
    ledger.close_with_tail(B, &text);
    let idle = ledger.idle_blocks(FIRST);
    ledger.close_with_tail(C, &text);
    ledger.check();
    assert_eq!(ledger.idle_blocks(FIRST), idle + 2, "the tail is there once");
    // One that has computed nothing puts it back.
    let more = tokens(12);
    assert_eq!(ledger.hit(&more), 9);
    ledger.open(A, &more, 9);
    ledger.close_with_tail(A, &more[..9]);
    ledger.check();
    assert_eq!(ledger.hit(&more), 9);
}

#[test]
fn all_groups_have_it_or_none_counts() {
    let mut ledger = ledger(&[Reach::All, Reach::Last(2)], 9);
    compute(&mut ledger, A, &tokens(7));
    let text = tokens(12);
    let trail = ledger.trail(&text);
    let key = ledger.key(GroupId(1), &trail, 1, &text[4..7]);
    assert!(ledger.named(GroupId(1), &key).is_some());
    ledger.disown(GroupId(1), &key);
    assert_eq!(ledger.hit(&text), 4);
    // It may come back from elsewhere, and then it counts.
    let elsewhere = |name: &crate::BlockKey| *name == key;
    let lack = ledger.lack(&trail, &text, &elsewhere);
    assert_eq!((lack.here, lack.there, lack.blocks), (4, 7, vec![(GroupId(1), 1)]));
    assert!(ledger.adopt(GroupId(1), &trail, 1, &text[4..7]).is_some());
    ledger.check();
    assert_eq!(ledger.hit(&text), 7);
}

#[test]
fn a_tail_elsewhere_is_asked_for_behind_the_blocks_before_it() {
    let text = tokens(12);
    let trail = ledger(&[Reach::All], 1).trail(&text);
    let names = ledger(&[Reach::All], 1);
    let elsewhere: Vec<_> =
        trail.keys(FIRST)[..2].iter().copied().chain([names.key(FIRST, &trail, 2, &text[8..10])]).collect();
    for (blocks, there, count) in [(9, 10, 3), (3, 10, 3), (2, 8, 2), (1, 4, 1)] {
        let mut ledger = ledger(&[Reach::All], blocks);
        let lack = ledger.lack(&trail, &text, &|key| elsewhere.contains(key));
        let expected: Vec<_> = (0..count).map(|index| (FIRST, index)).collect();
        assert_eq!((lack.here, lack.there, lack.blocks), (0, there, expected), "{blocks} blocks");
        for index in (0..count).rev() {
            let run = &text[index * 4..there.min(index * 4 + 4)];
            assert!(ledger.adopt(FIRST, &trail, index, run).is_some());
            ledger.check();
        }
        assert_eq!(ledger.hit(&text), there);
        assert_eq!(ledger.lack(&trail, &text, &|key| elsewhere.contains(key)).blocks, []);
    }
}

#[test]
fn a_tail_is_told_of_and_goes_first() {
    let mut ledger = ledger(&[Reach::All], 3);
    let text = tokens(10);
    compute(&mut ledger, A, &text);
    let (trail, news) = (ledger.trail(&text), ledger.news());
    let key = ledger.key(FIRST, &trail, 2, &text[8..]);
    let kept = trail.keys(FIRST).iter().copied().chain([key]).map(|key| (FIRST, key)).collect();
    assert_eq!(news, News { kept, disowned: Vec::new() });
    compute(&mut ledger, B, &[90; 4]);
    let gone: Vec<Evicted> = ledger.evicted();
    assert_eq!((gone.len(), gone[0].key, gone[0].parent, &*gone[0].tokens), (1, key, trail.keys(FIRST)[1], &text[8..]));
    assert_eq!(ledger.hit(&tokens(12)), 8);
}

/// A tail that is here must not make room for the block before it, which is on its way.
/// Seen to fail: only whole blocks counted as used.
#[test]
fn a_tail_that_is_here_outlives_what_is_fetched_before_it() {
    let mut ledger = ledger(&[Reach::All], 4);
    let text = tokens(10);
    compute(&mut ledger, A, &text);
    let trail = ledger.trail(&text);
    ledger.disown(FIRST, &trail.keys(FIRST)[1]);
    compute(&mut ledger, B, &[90; 7]); // takes the two places that are free, and is newer than all
    let more = tokens(12);
    let lack = ledger.lack(&trail, &more, &|key| *key == trail.keys(FIRST)[1]);
    assert_eq!((lack.here, lack.there, &lack.blocks[..]), (4, 10, &[(FIRST, 1)][..]));
    ledger.freshen(&trail, &more[..lack.there]);
    assert!(ledger.adopt(FIRST, &trail, 1, &text[4..8]).is_some());
    ledger.check();
    assert_eq!(ledger.hit(&more), 10);
}

#[test]
fn a_bad_sequence_takes_the_tail_that_it_began_with_along() {
    let mut ledger = ledger(&[Reach::All], 9);
    let text = tokens(6);
    compute(&mut ledger, A, &text);
    ledger.news();
    let more = tokens(7);
    ledger.open(B, &more, 6);
    // Somebody else computes the same meanwhile.
    ledger.open(C, &text, 4);
    ledger.grow(C, 6).unwrap();
    ledger.seal(C, &text, 6);
    ledger.close_with_tail(C, &text);
    ledger.news();
    ledger.discard(B);
    ledger.check();
    let trail = ledger.trail(&text);
    let expected = vec![trail.keys(FIRST)[0], ledger.key(FIRST, &trail, 1, &text[4..])];
    assert_eq!(ledger.news().disowned, expected);
    assert!(ledger.named(FIRST, &expected[1]).is_none());
    assert_eq!(ledger.hit(&more), 0);
}
