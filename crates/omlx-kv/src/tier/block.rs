//! A block outside the pools: what it is called, what it holds, and what somebody asks for.

use std::sync::Arc;

use omlx_blocks::{BlockKey, GroupId, Salt};

use crate::{BlockBytes, Codec};

/// Everything about a block but its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Which model and settings it belongs to. Blocks of one salt are counted together; that they never match another's is the
    /// key's work.
    pub salt: Salt,
    /// The group of layers.
    pub group: GroupId,
    /// Its name.
    pub key: BlockKey,
    /// The name of the block before it; of a first one, the group's root.
    pub parent: BlockKey,
    /// How its numbers are stored.
    pub codec: Codec,
    /// Its tokens. Compared when it is read: equal hashes alone are not proof.
    pub tokens: Arc<[u32]>,
}

/// A block on its way into a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it is called.
    pub label: Label,
    /// What it holds.
    pub bytes: BlockBytes,
    /// Whether a window has left it behind: only a prompt that ends near it could want it again, so it is the first to go.
    pub behind: bool,
}

/// A block that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub key: BlockKey,
    /// The tokens it must hold.
    pub tokens: Arc<[u32]>,
    /// The bytes it must have: [`KvCache::block_len`](crate::KvCache::block_len).
    pub len: usize,
}
