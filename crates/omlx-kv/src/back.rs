//! Memory of blocks that nobody needs, given back to the system while the rest of the pools stays in use.

use omlx_blocks::{BlockId, GroupId};
use omlx_ops::{give_back, gives_back};

use crate::{KvCache, Result};

impl KvCache {
    /// Whether [`give_back`](Self::give_back) can do anything on this cache's device and system.
    pub fn gives_back(&self) -> bool {
        self.layers.iter().flat_map(|layer| layer.tensors()).all(|pool| gives_back(pool.device()))
    }

    /// Gives back the memory of blocks that nobody holds or finds, in every layer of their group, and answers how many bytes that was.
    /// Their content is lost; they can be used again at once. Neighbours are given back together: memory comes in pages, and a block
    /// of a small model is less than one.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When there is no such group or block.
    pub fn give_back(&self, group: GroupId, blocks: &[BlockId]) -> Result<u64> {
        let mut given = 0;
        for run in blocks.chunk_by(|one, next| one.0 + 1 == next.0) {
            for pool in self.pools(group) {
                let first = self.first_row(pool, run[0]);
                self.first_row(pool, run[run.len() - 1]); // the last one lies in the pool, too
                given += give_back(pool, first..first + run.len() * self.block())? as u64;
            }
        }
        Ok(given)
    }
}

impl Drop for KvCache {
    /// An allocator may keep what is freed for later, and a cache is most of what a process takes.
    fn drop(&mut self) {
        for pool in self.layers.iter().flat_map(|layer| layer.tensors()) {
            // What fails here is freed all the same.
            let _ = give_back(pool, 0..pool.dims()[0]);
        }
    }
}

#[cfg(test)]
mod tests;
