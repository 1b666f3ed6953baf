//! Trails are what hashing says, and adopted blocks are found.

use crate::{GroupId, GroupSize, Ledger, Reach, Salt, SeqId};

fn ledger(blocks: usize) -> Ledger {
    let size = |reach| GroupSize { reach, blocks };
    let reaches = [Reach::All, Reach::Last(5), Reach::Keep { first: 3, last: 2 }];
    Ledger::new(4, &reaches.map(size), Salt::of(&[]))
}

/// Caught: a followed trail that hashes the first block again.
#[test]
fn a_trail_grows_with_its_tokens() {
    let ledger = ledger(4);
    let tokens: Vec<u32> = (0..23).collect();
    let whole = ledger.trail(&tokens);
    assert_eq!(whole.blocks(), 5);
    let mut grown = ledger.trail(&[]);
    for len in 0..=tokens.len() {
        ledger.follow(&mut grown, &tokens[..len]);
        assert_eq!(grown.blocks(), len / 4);
        assert_eq!(grown, whole.cut(len / 4));
    }
    assert_eq!(grown, whole);
    assert_ne!(whole.keys(GroupId(0)), whole.keys(GroupId(1)), "groups have names of their own");
}

/// A prefix from elsewhere: the whole chain where all is seen, start and window elsewhere.
/// Caught: adopting without naming, and adopting a block that is here already twice.
#[test]
fn adopted_blocks_are_a_hit() {
    let mut ledger = ledger(6);
    let tokens: Vec<u32> = (0..21).collect();
    let trail = ledger.trail(&tokens);
    let adopt = |ledger: &mut Ledger, g: u32, i: usize| {
        let group = GroupId(g);
        let found = ledger.adopt(group, &trail, i, &tokens[i * 4..(i + 1) * 4]);
        ledger.check();
        found
    };
    (0..5).rev().for_each(|i| assert!(adopt(&mut ledger, 0, i).is_some()));
    assert_eq!(adopt(&mut ledger, 0, 3), None, "here already");
    assert!(adopt(&mut ledger, 1, 4).is_some());
    assert!(adopt(&mut ledger, 2, 4).is_some());
    assert_eq!(ledger.hit(&tokens), 0, "the kept start is missing");
    assert!(adopt(&mut ledger, 2, 0).is_some());
    assert_eq!(ledger.hit_along(&trail, &tokens), 20);
    assert_eq!(ledger.hit_along(&trail.cut(2), &tokens), 0, "windows lack what the token after block 2 sees");
    ledger.open_along(SeqId(1), &trail, &tokens, 20);
    ledger.check();
    assert_eq!(ledger.table(SeqId(1), GroupId(2)).gap(), 1..4);
}

#[test]
fn a_held_pool_adopts_nothing() {
    let mut ledger = ledger(1);
    let trail = ledger.trail(&[7; 4]);
    ledger.open(SeqId(1), &[1], 0);
    ledger.grow(SeqId(1), 1).unwrap();
    assert_eq!(ledger.adopt(GroupId(0), &trail, 0, &[7; 4]), None);
    ledger.check();
}
