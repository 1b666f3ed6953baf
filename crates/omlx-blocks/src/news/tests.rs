//! Who is told what, case by case; blocks of 4 throughout.
//!
//! Seen to fail: a place given up told of; a discarded sequence whose blocks are worth keeping; an anchor that looks at the window of
//! now instead of the last whole block's, or leaves it where it was; a wrong parent; a chain freshened from its front; a whole trail freshened, so that what a window has no use for outlives what it needs.

use super::{Evicted, News};
use crate::{BlockId, BlockKey, GroupId, GroupSize, Ledger, Reach, Salt, SeqId};

const ALL: Reach = Reach::All;
const FIRST: GroupId = GroupId(0);
const A: SeqId = SeqId(1);
const B: SeqId = SeqId(2);

fn ledger(reaches: &[Reach], blocks: usize) -> Ledger {
    let sizes: Vec<GroupSize> = reaches.iter().map(|&reach| GroupSize { reach, blocks }).collect();
    let mut ledger = Ledger::new(4, &sizes, Salt::of(&[]));
    ledger.listen();
    ledger
}

fn tokens(len: usize) -> Vec<u32> {
    (0..len as u32).collect()
}

/// Opens a sequence on its hit and computes it, `step` tokens at a time.
fn compute(ledger: &mut Ledger, seq: SeqId, tokens: &[u32], step: usize) {
    let mut computed = ledger.hit(tokens);
    ledger.open(seq, tokens, computed);
    while computed < tokens.len() {
        computed = (computed + step).min(tokens.len());
        ledger.grow(seq, computed).unwrap();
        ledger.seal(seq, tokens, computed);
    }
    ledger.check();
}

/// Which blocks of `tokens` the news are about, by group and index.
fn kept(ledger: &mut Ledger, tokens: &[u32]) -> Vec<(u32, usize)> {
    let News { kept, disowned } = ledger.news();
    assert_eq!(disowned, []);
    kept.iter().map(|(group, key)| (group.0, index(ledger, *group, tokens, key))).collect()
}

fn index(ledger: &Ledger, group: GroupId, tokens: &[u32], key: &BlockKey) -> usize {
    ledger.trail(tokens).keys(group).iter().position(|known| known == key).expect("of another text")
}

/// Which blocks of `tokens` lost their places, by index.
fn evicted(ledger: &mut Ledger, tokens: &[u32]) -> Vec<usize> {
    let all = ledger.evicted();
    all.iter().map(|gone| index(ledger, gone.group, tokens, &gone.key)).collect()
}

#[test]
fn who_does_not_listen_is_told_nothing() {
    let sizes = [GroupSize { reach: ALL, blocks: 2 }];
    let mut ledger = Ledger::new(4, &sizes, Salt::of(&[]));
    compute(&mut ledger, A, &tokens(8), 4);
    ledger.close(A);
    compute(&mut ledger, B, &[90; 8], 8);
    ledger.discard(B);
    assert_eq!((ledger.news(), ledger.evicted()), (News::default(), Vec::new()));
    ledger.listen();
    compute(&mut ledger, A, &tokens(8), 8);
    ledger.listen(); // again: nothing is lost
    assert_eq!(kept(&mut ledger, &tokens(8)), [(0, 0), (0, 1)]);
    assert_eq!(ledger.news(), News::default(), "told once");
}

#[test]
fn sealed_blocks_are_worth_keeping_where_all_is_seen() {
    let mut ledger = ledger(&[ALL, Reach::Last(2)], 20);
    let text = tokens(40);
    compute(&mut ledger, A, &text, 6);
    let kept = kept(&mut ledger, &text);
    let first: Vec<usize> = kept.iter().filter(|(g, _)| *g == 0).map(|(_, i)| *i).collect();
    assert_eq!(first, (0..10).collect::<Vec<_>>(), "parents before children");
    // Of a window the ends of 2, 4, 8, 16 and 32 tokens, in whole blocks, and so on.
    let second: Vec<usize> = kept.iter().filter(|(g, _)| *g == 1).map(|(_, i)| *i).collect();
    assert_eq!(second, [0, 1, 3, 7]);
}

/// A block full since 12; of the window of now it is the last or not in it at all, at 12 it is needed.
#[test]
fn an_end_is_worth_what_the_last_whole_block_sees() {
    for (len, expected) in [(12, 2), (13, 2), (15, 2), (16, 3), (19, 3)] {
        let mut ledger = ledger(&[Reach::Last(4)], 9);
        let text = tokens(len);
        compute(&mut ledger, B, &[90; 5], 5);
        ledger.close(B);
        compute(&mut ledger, A, &text, 1);
        ledger.news();
        ledger.anchor(A, len);
        assert_eq!(kept(&mut ledger, &text), [(0, expected)], "{len} tokens");
        ledger.close(A);
        assert_eq!(kept(&mut ledger, &text), [(0, expected)], "{len} tokens, at its end");
        // And it goes last, after what others left before, though a window may have left it behind.
        let key = ledger.trail(&text).keys(FIRST)[expected];
        ledger.retire();
        let gone = ledger.evicted();
        assert_eq!(gone.last().map(|gone| (gone.key, gone.behind)), Some((key, false)), "{len} tokens");
    }
}

/// The same prompt once more is computed from its last token on, which may stand at the end of a whole block: it needs one before.
#[test]
fn a_shorter_beginning_is_worth_as_much() {
    for (len, beginning, expected) in
        [(16, 15, vec![2, 3]), (17, 16, vec![3]), (19, 12, vec![2, 3]), (16, 3, vec![0, 1, 2, 3])]
    {
        let mut ledger = ledger(&[Reach::Last(4)], 9);
        let text = tokens(len);
        compute(&mut ledger, A, &text, 1);
        ledger.news();
        ledger.anchor(A, beginning);
        let expected: Vec<_> = expected.into_iter().map(|index| (0, index)).collect();
        assert_eq!(kept(&mut ledger, &text), expected, "{beginning} of {len} tokens");
    }
}

#[test]
fn who_loses_a_place_is_told_of_with_all_there_is_to_it() {
    let mut ledger = ledger(&[Reach::Last(5)], 4);
    let text = tokens(16);
    compute(&mut ledger, A, &text, 4); // block 3 is in the window; 0, 1 and 2 are behind
    let trail = ledger.trail(&text);
    let keys = trail.keys(FIRST);
    let gone = |i: usize, behind| Evicted {
        group: FIRST,
        block: BlockId(i as u32),
        key: keys[i],
        parent: if i == 0 { BlockKey::root(&Salt::of(&[])) } else { keys[i - 1] },
        tokens: text[i * 4..(i + 1) * 4].into(),
        behind,
    };
    assert_eq!(ledger.evicted(), []);
    ledger.close(A);
    compute(&mut ledger, B, &[90; 16], 16);
    let mut told = ledger.evicted();
    // The first one's parent is the root of the group, not of the salt; whoever has it asks the ledger.
    let root = told[0].parent;
    assert_ne!(root, gone(0, true).parent);
    told[0].parent = gone(0, true).parent;
    assert_eq!(told, [gone(0, true), gone(1, true), gone(2, true), gone(3, false)]);
    assert_eq!(ledger.evicted(), [], "told once");
    assert!(keys.iter().all(|key| ledger.named(FIRST, key).is_none()));
}

#[test]
fn what_is_given_up_nobody_is_told_of_and_what_retires_goes_least_first() {
    let mut ledger = ledger(&[ALL], 6);
    let text = tokens(20);
    compute(&mut ledger, A, &text, 20);
    ledger.close(A);
    assert_eq!(ledger.give_up(FIRST, 3).len(), 2);
    assert_eq!(ledger.evicted(), []);
    ledger.retire();
    ledger.check();
    assert_eq!(evicted(&mut ledger, &text), [2, 1, 0]);
    assert_eq!((ledger.hit(&text), ledger.free_blocks(FIRST)), (0, 6));
    compute(&mut ledger, B, &tokens(9), 9);
    ledger.retire();
    assert_eq!(ledger.evicted(), [], "what is held stays");
}

/// All names, those it shares and those it has forgotten too, in every group; and nothing else is said of it.
#[test]
fn a_discarded_sequence_is_disowned_whole() {
    let mut ledger = ledger(&[ALL, Reach::Last(3)], 20);
    let text = tokens(18);
    compute(&mut ledger, A, &text[..9], 3);
    compute(&mut ledger, B, &text, 3);
    ledger.news();
    ledger.discard(B);
    let trail = ledger.trail(&text);
    let News { kept, disowned } = ledger.news();
    assert_eq!(kept, []);
    assert_eq!(disowned, [trail.keys(FIRST), trail.keys(GroupId(1))].concat());
    assert_eq!(ledger.evicted(), [], "bad content is not handed on");
    ledger.close(A);
    ledger.retire();
    assert_eq!(ledger.evicted(), [], "nor is what others held of it");
}

#[test]
fn a_name_leads_to_its_block_until_it_is_disowned() {
    let mut ledger = ledger(&[ALL, ALL], 6);
    let text = tokens(9);
    compute(&mut ledger, A, &text, 9);
    let trail = ledger.trail(&text);
    let (first, second) = (trail.keys(FIRST)[0], trail.keys(FIRST)[1]);
    let named = ledger.named(FIRST, &second).unwrap();
    assert_eq!((named.block, named.parent, named.tokens), (BlockId(1), first, &text[4..8]));
    assert_eq!(ledger.named(GroupId(1), &second), None, "a name of another group");
    ledger.close(A);
    ledger.disown(FIRST, &second);
    ledger.disown(FIRST, &second);
    ledger.check();
    assert_eq!(ledger.named(FIRST, &second), None);
    assert_eq!((ledger.hit(&text), ledger.evicted()), (4, Vec::new()));
    assert!(ledger.news().disowned.is_empty(), "whoever says it knows it");
}

/// Frees `n` places and answers whose they were, by index.
fn makes_room(ledger: &mut Ledger, n: usize, text: &[u32]) -> Vec<usize> {
    compute(ledger, B, &[90; 400][..n * 4], n * 4);
    let gone = evicted(ledger, text);
    ledger.discard(B);
    ledger.news();
    gone
}

#[test]
fn what_was_freshened_goes_last_and_its_front_last_of_all() {
    let mut ledger = ledger(&[ALL], 6);
    let (text, other) = (tokens(12), [70; 12]);
    compute(&mut ledger, A, &text, 12);
    ledger.close(A);
    compute(&mut ledger, A, &other, 12);
    ledger.close(A);
    ledger.freshen(&ledger.trail(&text), &text[..8]);
    assert_eq!(makes_room(&mut ledger, 1, &text), [2], "beyond the length that counts");
    assert_eq!(ledger.hit(&other), 8);
    assert_eq!(makes_room(&mut ledger, 4, &other), [2, 1, 0], "one place was free");
    assert_eq!(makes_room(&mut ledger, 6, &text), [1, 0]);
}

/// A window's front is of no use to a prompt that goes on behind it, and must not live at the cost of what is.
#[test]
fn of_a_window_only_what_is_needed_is_freshened() {
    for (reach, blocks, order) in
        [(Reach::Last(7), 4, &[1, 0, 3, 2][..]), (Reach::Keep { first: 2, last: 3 }, 4, &[2, 1, 3, 0])]
    {
        let mut ledger = ledger(&[reach], blocks);
        let text = tokens(17);
        let trail = ledger.trail(&text);
        for i in (0..4).rev() {
            ledger.adopt(FIRST, &trail, i, &text[i * 4..(i + 1) * 4]).unwrap();
        }
        ledger.freshen(&trail, &text[..16]);
        assert_eq!(makes_room(&mut ledger, blocks, &text), order, "{reach:?}");
    }
}
