//! The order in which memory gives blocks up.

use omlx_kv::tier::{BlockStore, RamStore};

use crate::sample::{chain, get, keys};

/// Bytes that one block of `len` takes, found by asking.
fn cost(len: usize) -> u64 {
    let ram = RamStore::new(1 << 30);
    ram.put(&chain(0, 0, 1, len)).unwrap();
    ram.stats().bytes
}

fn room_for(blocks: u64) -> RamStore {
    RamStore::new(blocks * cost(100))
}

/// Seen to fail: children that do not keep their parent.
#[test]
fn a_chain_loses_its_end_before_its_front() {
    let ram = room_for(10);
    let (old, new) = (chain(0, 1, 8, 100), chain(0, 2, 6, 100));
    ram.put(&old).unwrap();
    ram.put(&new).unwrap();
    assert_eq!((get(&ram, &old), get(&ram, &new)), (4, 6));
    assert_eq!(ram.stats().evicted, 4);
}

#[test]
fn what_was_used_last_stays() {
    let ram = room_for(10);
    let chains = [1, 2, 3].map(|stem| chain(0, stem, 5, 100));
    ram.put(&chains[0]).unwrap();
    ram.put(&chains[1]).unwrap();
    ram.touch(&keys(&chains[0]));
    ram.put(&chains[2]).unwrap();
    assert_eq!(chains.each_ref().map(|c| ram.leading(&keys(c))), [5, 0, 5]);
}

/// Seen to fail: children that do not keep their parent.
#[test]
fn a_block_never_takes_the_place_of_its_own_parents() {
    let ram = room_for(4);
    let long = chain(0, 1, 9, 100);
    ram.put(&long).unwrap();
    assert_eq!(get(&ram, &long), 4);
    let stats = ram.stats();
    assert_eq!((stats.refused, stats.evicted, stats.blocks), (5, 0, 4));
}

/// Seen to fail: counting only one child of a shared front.
#[test]
fn a_shared_front_outlives_all_its_ends() {
    let ram = room_for(8);
    let long = chain(0, 1, 6, 100);
    ram.put(&long).unwrap();
    // a second end on the third block
    let mut branch = chain(0, 1, 3, 100);
    for mut block in chain(0, 9, 2, 100) {
        let parent = branch.last().unwrap().label.key;
        block.label.parent = parent;
        block.label.key = parent.child(&block.label.tokens);
        block.bytes = omlx_kv::BlockBytes::new(crate::sample::content(&block.label.key, 100));
        branch.push(block);
    }
    ram.put(&branch).unwrap();
    ram.put(&chain(0, 2, 5, 100)).unwrap();
    assert_eq!((ram.leading(&keys(&long)), ram.leading(&keys(&branch))), (3, 3));
    ram.touch(&keys(&branch[..3]));
    ram.put(&chain(0, 3, 5, 100)).unwrap();
    assert_eq!(ram.leading(&keys(&branch)), 3);
}

/// Seen to fail: an order by use alone.
#[test]
fn what_a_window_left_behind_goes_first() {
    let ram = room_for(10);
    let full = chain(0, 1, 5, 100);
    let mut window = chain(0, 2, 5, 100);
    window[..3].iter_mut().for_each(|block| block.behind = true);
    ram.put(&full).unwrap();
    ram.put(&window).unwrap();
    ram.put(&chain(0, 3, 2, 100)).unwrap();
    assert_eq!(ram.leading(&keys(&full)), 5);
    assert_eq!(window.iter().filter(|b| ram.contains(&b.label.key)).count(), 3);
    assert!(ram.contains(&window[4].label.key) && ram.contains(&window[3].label.key));
    // and what was left behind never takes the place of what was not
    let mut more = chain(0, 4, 5, 100);
    more.iter_mut().for_each(|block| block.behind = true);
    ram.put(&more).unwrap();
    assert_eq!((ram.leading(&keys(&full)), ram.leading(&keys(&chain(0, 3, 2, 100)))), (5, 2));
}

#[test]
fn tokens_are_compared_and_sizes_too() {
    let ram = room_for(4);
    let one = chain(0, 1, 2, 100);
    ram.put(&one).unwrap();
    let mut wanted = crate::sample::wanted(&one);
    wanted[1].tokens = [1, 2, 3, 4].into();
    assert_eq!(ram.get(&wanted).blocks.len(), 1);
    let mut wanted = crate::sample::wanted(&one);
    wanted[0].len = 99;
    assert_eq!(ram.get(&wanted).blocks.len(), 0);
}

#[test]
fn a_smaller_budget_holds_at_once() {
    let ram = room_for(10);
    let one = chain(0, 1, 10, 100);
    ram.put(&one).unwrap();
    ram.set_budget(3 * cost(100));
    assert_eq!((get(&ram, &one), ram.stats().bytes), (3, 3 * cost(100)));
    ram.set_budget(0);
    assert_eq!((ram.stats().bytes, ram.stats().blocks), (0, 0));
}
