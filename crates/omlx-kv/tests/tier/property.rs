//! Both stores against a naive map: every name that was put and not forgotten.
//!
//! A store may have lost blocks, never gained or changed any; what it says it has it gives out; its bytes stay within the budget.
//! Where the budget is never reached it has lost none. Seen to fail: records booked at the place
//! of the write before; forgetting that forgets nothing.

use std::collections::BTreeSet;

use omlx_kv::BlockKey;
use omlx_kv::tier::{Block, BlockStore, RamStore};
use proptest::prelude::*;

use crate::sample::{chain, get, keys, open, taken};

/// Length of every chain.
const LONG: usize = 12;

#[derive(Clone, Debug)]
enum Move {
    Put {
        which: usize,
        end: usize,
    },
    Get {
        which: usize,
        end: usize,
    },
    Touch {
        which: usize,
        end: usize,
    },
    Forget {
        which: usize,
        at: usize,
    },
    /// Ends the process in good order, and starts it again.
    Restart,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let any = prop_oneof![
        6 => (0..6usize, 1..=LONG).prop_map(|(which, end)| Move::Put { which, end }),
        4 => (0..6usize, 1..=LONG).prop_map(|(which, end)| Move::Get { which, end }),
        2 => (0..6usize, 1..=LONG).prop_map(|(which, end)| Move::Touch { which, end }),
        1 => (0..6usize, 0..LONG).prop_map(|(which, at)| Move::Forget { which, at }),
        1 => Just(Move::Restart),
    ];
    prop::collection::vec(any, 1..60)
}

fn chains(len: usize) -> Vec<Vec<Block>> {
    (0..6).map(|stem| chain(stem % 2, stem, LONG, len + 100 * stem as usize)).collect()
}

/// Makes a move, if the store can; checks what comes back, and that nothing is here that may not be.
fn make(store: &dyn BlockStore, naive: &mut BTreeSet<BlockKey>, chains: &[Vec<Block>], m: &Move) {
    match *m {
        Move::Put { which, end } => {
            store.put(&chains[which][..end]).unwrap();
            naive.extend(keys(&chains[which][..end]));
        }
        Move::Get { which, end } => {
            let asked = &chains[which][..end];
            let said = store.leading(&keys(asked));
            assert_eq!(get(store, asked), said, "it gives out what it says it has");
        }
        Move::Touch { which, end } => store.touch(&keys(&chains[which][..end])),
        Move::Forget { which, at } => {
            let key = chains[which][at].label.key;
            store.forget(&[key]);
            naive.remove(&key);
            assert!(!store.contains(&key));
        }
        Move::Restart => {}
    }
    let here = chains.iter().flatten().filter(|b| store.contains(&b.label.key));
    let here: BTreeSet<BlockKey> = here.map(|b| b.label.key).collect();
    assert!(here.is_subset(naive), "something is here that was never put, or was forgotten");
    let stats = store.stats();
    assert_eq!(stats.blocks, here.len() as u64);
    assert!(stats.bytes <= stats.budget_bytes, "{stats:?}");
    if stats.evicted + stats.refused == 0 {
        assert_eq!(here, *naive, "nothing was given up, but something is lost");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_a_map_that_may_lose_ends(moves in moves(), budget in 2_000..120_000u64) {
        let (store, chains) = (RamStore::new(budget), chains(200));
        let mut naive = BTreeSet::new();
        let mut forgotten = BTreeSet::new();
        for m in &moves {
            make(&store, &mut naive, &chains, m);
            match *m {
                Move::Forget { which, at } => { forgotten.insert(chains[which][at].label.key); }
                Move::Put { which, end } => forgotten.retain(|key| !keys(&chains[which][..end]).contains(key)),
                _ => {}
            }
            // a front is lost only where it was forgotten by name, or never found room
            if store.stats().refused == 0 && forgotten.is_empty() {
                for chain in &chains {
                    let here: Vec<bool> = chain.iter().map(|b| store.contains(&b.label.key)).collect();
                    let front = store.leading(&keys(chain));
                    prop_assert!(here[front..].iter().all(|here| !here), "an end without its front");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_folder_is_a_map_that_may_lose_segments(moves in moves(), len in 100..9_000usize, large in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let budget = if large { 4 << 20 } else { 300 << 10 };
        let (mut store, _) = open(folder.path(), budget);
        let chains = chains(len);
        let mut naive = BTreeSet::new();
        let mut lost = 0;
        for m in &moves {
            if matches!(m, Move::Restart) {
                lost += store.stats().evicted + store.stats().refused;
                drop(store);
                store = open(folder.path(), budget).0;
                // What was forgotten is marked in its record, and records are not read at the start.
                store.verify();
                if lost > 0 {
                    naive.retain(|key| store.contains(key));
                }
                lost = 0;
            }
            make(&store, &mut naive, &chains, m);
            prop_assert!(taken(folder.path()) <= budget);
        }
    }
}
