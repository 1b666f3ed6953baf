//! Every invariant, as code.
//!
//! Tests call this after each move; it walks everything, so the engine does not.

use std::collections::BTreeMap;

use crate::ledger::{Group, Holding};
use crate::{BlockId, Ledger, SeqId};

impl Ledger {
    /// Panics with the broken invariant, if there is one.
    pub fn check(&self) {
        for (seq, holdings) in &self.seqs {
            assert_eq!(holdings.len(), self.groups.len(), "{seq:?}: one table per group");
            for (g, (holding, group)) in holdings.iter().zip(&self.groups).enumerate() {
                let first = &holdings[0];
                let label = format!("{seq:?} group {g}");
                assert_eq!(holding.table.end(), first.table.end(), "{label}: same tokens");
                assert_eq!(holding.keys.len(), first.keys.len(), "{label}: same seals");
                check_holding(&label, holding, group, self.block);
            }
        }
        for (g, group) in self.groups.iter().enumerate() {
            let holders = holders(g, &self.seqs);
            check_pool(g, group, &holders, self.block);
        }
    }
}

/// Sealed blocks carry their name, open ones have none, and only sealed ones are forgotten.
fn check_holding(label: &str, holding: &Holding, group: &Group, block: usize) {
    let (table, keys) = (&holding.table, &holding.keys);
    assert!(table.forgotten() == 0 || table.gap().end <= keys.len(), "{label}: forgot an open block");
    assert_eq!(table.kept(), group.reach.kept_blocks(block), "{label}: keeps others than its reach says");
    assert!(keys.len() <= table.end(), "{label}: sealed more than it holds");
    let mut parent = group.root;
    for (i, key) in keys.iter().enumerate() {
        let Some(id) = table.get(i) else {
            parent = *key;
            continue;
        };
        let name = group.pool.blocks[id.index()].name.as_ref();
        let name = name.unwrap_or_else(|| panic!("{label}: sealed block {i} has no name"));
        assert_eq!(name.key, *key, "{label}: block {i} has another's name");
        assert_eq!(parent.child(&name.tokens), *key, "{label}: broken chain at {i}");
        parent = *key;
    }
    for i in keys.len()..table.end() {
        let open = &group.pool.blocks[holding.block(i).index()];
        assert!(open.name.is_none(), "{label}: open block {i} has a name");
        assert_eq!(open.holders, 1, "{label}: open block {i} is shared");
    }
    if group.reach == crate::Reach::All {
        assert_eq!(table.forgotten(), 0, "{label}: forgot within reach");
    }
}

fn holders(g: usize, seqs: &BTreeMap<SeqId, Vec<Holding>>) -> BTreeMap<BlockId, u32> {
    let mut holders = BTreeMap::new();
    for (seq, holdings) in seqs {
        let mut own: Vec<BlockId> = holdings[g].table.live().collect();
        for id in &own {
            *holders.entry(*id).or_default() += 1;
        }
        own.sort_unstable();
        let twice = own.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "{seq:?} group {g} holds a block twice");
    }
    holders
}

/// Each block is held, idle or free, exactly one of them, and names lead where they say.
fn check_pool(g: usize, group: &Group, holders: &BTreeMap<BlockId, u32>, block: usize) {
    let pool = &group.pool;
    let mut free = vec![0; pool.blocks.len()];
    for id in &pool.free {
        free[id.index()] += 1;
    }
    let mut named = 0;
    for (i, state) in pool.blocks.iter().enumerate() {
        let id = BlockId(i as u32);
        let label = format!("group {g} {id:?}");
        let counted = holders.get(&id).copied().unwrap_or(0);
        assert_eq!(state.holders, counted, "{label}: wrong count of holders");
        let idle = state.rank.is_some_and(|rank| pool.idle.get(&rank) == Some(&id));
        assert_eq!(state.rank.is_some(), idle, "{label}: rank without a place");
        let states = usize::from(counted > 0) + usize::from(idle) + free[i];
        assert_eq!(states, 1, "{label}: held {counted}, idle {idle}, free {}", free[i]);
        let findable = state.name.as_ref().is_some_and(|name| name.findable);
        if let Some(name) = &state.name {
            let leads_here = pool.names.get(&name.key) == Some(&id);
            assert_eq!(leads_here, findable, "{label}: name leads elsewhere");
            let full = name.tokens.len() == block;
            assert!(full || (counted == 0 && !name.tokens.is_empty()), "{label}: held, and sealed before it was full");
            named += usize::from(findable);
        }
        assert!(idle <= findable, "{label}: idle but not findable");
        assert!(free[i] == 0 || state.name.is_none(), "{label}: free but findable");
        assert!(free[i] == 1 || state.touched, "{label}: in use but never taken");
    }
    assert_eq!(pool.names.len(), named, "group {g}: names of no block");
    let idle = pool.blocks.iter().filter(|b| b.rank.is_some()).count();
    assert_eq!(pool.idle.len(), idle, "group {g}: idle entries of no block");
}
