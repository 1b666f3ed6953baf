//! The order in which blocks are taken, and what a name survives.

use super::{Leave, Pool};
use crate::{BlockId, BlockKey, Salt};

/// A pool whose blocks 0..n are sealed and held, and their keys.
fn sealed(n: usize) -> (Pool, Vec<BlockKey>) {
    let mut pool = Pool::new(n);
    let mut key = BlockKey::root(&Salt::of(&[]));
    let keys = (0..n as u32)
        .map(|i| {
            let parent = key;
            key = key.child(&[i]);
            let id = pool.take().unwrap();
            assert_eq!(id, BlockId(i), "a fresh pool hands out blocks in order");
            assert_eq!(pool.publish(id, key, parent, &[i]), id);
            key
        })
        .collect();
    (pool, keys)
}

/// Releases blocks in the order given, then takes them all: which order do they come in?
fn check(releases: &[(u32, Leave)], taken: &[u32]) {
    let (mut pool, _) = sealed(releases.len());
    for &(id, leave) in releases {
        pool.release(BlockId(id), leave);
    }
    let order: Vec<u32> = releases.iter().map(|_| pool.take().unwrap().0).collect();
    assert_eq!(order, taken);
    assert_eq!(pool.take(), None);
}

/// Caught: `pop_last` in place of `pop_first`.
#[test]
fn least_recently_released_goes_first() {
    check(&[(2, Leave::Closed), (0, Leave::Closed), (1, Leave::Closed)], &[2, 0, 1]);
}

#[test]
fn what_a_window_left_behind_goes_before_that() {
    check(&[(2, Leave::Closed), (0, Leave::Behind), (1, Leave::Closed)], &[0, 2, 1]);
}

#[test]
fn a_proven_block_is_not_dropped_early() {
    let (mut pool, _) = sealed(3);
    pool.reuse(BlockId(0));
    for (id, leave) in [(1, Leave::Closed), (0, Leave::Closed), (0, Leave::Behind), (2, Leave::Behind)] {
        pool.release(BlockId(id), leave);
    }
    let order: Vec<u32> = (0..3).map(|_| pool.take().unwrap().0).collect();
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn free_blocks_go_before_findable_ones() {
    let (mut pool, keys) = sealed(2);
    pool.release(BlockId(0), Leave::Closed);
    pool.reopen(BlockId(1));
    pool.release(BlockId(1), Leave::Closed);
    assert_eq!(pool.take(), Some(BlockId(1)));
    assert_eq!(pool.find(&keys[0], &[0]), Some(BlockId(0)));
    assert_eq!(pool.take(), Some(BlockId(0)));
    assert_eq!(pool.find(&keys[0], &[0]), None, "evicted");
}

/// A name alone is no proof: the tokens are compared too. Caught: a `find` that trusts the key.
#[test]
fn equal_hash_with_other_tokens_is_no_match() {
    let (pool, keys) = sealed(1);
    assert_eq!(pool.find(&keys[0], &[0]), Some(BlockId(0)));
    assert_eq!(pool.find(&keys[0], &[9]), None);
}

#[test]
fn equal_blocks_are_stored_once() {
    let mut pool = Pool::new(2);
    let root = BlockKey::root(&Salt::of(&[]));
    let key = root.child(&[5]);
    let (one, other) = (pool.take().unwrap(), pool.take().unwrap());
    assert_eq!(pool.publish(one, key, root, &[5]), one);
    assert_eq!(pool.publish(other, key, root, &[5]), one);
    assert_eq!((pool.blocks[one.index()].holders, pool.available()), (2, 1));
}

/// Of five blocks 0 and 3 are held, the others idle, free, and never taken.
#[test]
fn what_is_given_up_and_what_stays_findable() {
    let mut pool = Pool::new(6);
    let root = BlockKey::root(&Salt::of(&[]));
    for i in 0..5 {
        let id = pool.take().unwrap();
        pool.publish(id, root.child(&[i]), root, &[i]);
    }
    assert_eq!(pool.spare(), 0);
    for id in [4, 1] {
        pool.release(BlockId(id), Leave::Closed);
    }
    pool.reopen(BlockId(2));
    pool.release(BlockId(2), Leave::Closed);
    assert_eq!(pool.spare(), 3);
    let found = |pool: &Pool, i: u32| pool.find(&root.child(&[i]), &[i]).is_some();
    // Seen to fail: the most recently used given up first; held ones given up; the same ones answered twice.
    assert_eq!(pool.give_up(1), [BlockId(2), BlockId(4)]);
    assert!(found(&pool, 1) && !found(&pool, 4));
    assert_eq!((pool.spare(), pool.available()), (1, 4));
    assert_eq!(pool.give_up(1), []);
    assert_eq!(pool.give_up(0), [BlockId(1)]);
    assert!(!found(&pool, 1) && found(&pool, 0), "held ones stay");
    assert_eq!(pool.take(), Some(BlockId(1)), "from the front again");
    assert_eq!(pool.spare(), 0, "a block that is taken is nothing to give up");
    pool.release(BlockId(1), Leave::Closed);
    assert_eq!(pool.give_up(0), [BlockId(1)]);
}
