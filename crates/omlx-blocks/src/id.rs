//! Numbers that cannot be mixed up: sequences, groups, blocks and slots.

/// One sequence, from its arrival to its end. Never reused by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeqId(pub u64);

/// One group of layers that store alike; its index in the list given to [`Ledger::new`](crate::Ledger::new).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The group's place in a list of groups.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One block of one group's pool. Ids of different groups name different memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The block's place in its pool.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One token's place in a group's pool: block id × block size + offset, the row of the pool's tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);
