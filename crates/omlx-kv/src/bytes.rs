//! One block's content as bytes: out of the pools, and back into them bit for bit.
//!
//! The bytes of a block are those of its group's layers in order, each layer's keys before its values, as the codec stores
//! them: nothing is decoded on the way out or in, so what comes back is what was there.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{CpuStorage, Device, Storage, Tensor};
use omlx_blocks::{BlockId, GroupId};
use omlx_ops::write_raw;

use crate::buffers::Buffer;
use crate::{Error, KvCache, Result};

// Blocks are written as they stand in memory. A machine of the other order would read garbage without noticing.
const _: () = assert!(cfg!(target_endian = "little"), "stored blocks are little-endian");

/// The content of one block in every layer of its group. Cloning copies no content; it never changes.
#[derive(Clone)]
pub struct BlockBytes {
    whole: Arc<Buffer>,
    range: Range<usize>,
}

impl BlockBytes {
    /// Content that came from elsewhere.
    pub fn new(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { whole: Arc::new(Buffer::own(bytes)), range }
    }

    /// A part of what several blocks were read into together.
    pub(crate) fn part(whole: &Arc<Buffer>, range: Range<usize>) -> Self {
        Self { whole: Arc::clone(whole), range }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.whole[self.range.clone()]
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The same content in memory of its own: a part would keep all it was read with.
    pub(crate) fn owned(self) -> Self {
        if self.whole.held() == self.range.len() { self } else { Self::new(self.as_slice().to_vec()) }
    }
}

impl PartialEq for BlockBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for BlockBytes {}

impl std::fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockBytes({} bytes)", self.len())
    }
}

impl KvCache {
    /// The content of a block, for a store.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When there is no such group or block.
    pub fn export(&self, group: GroupId, block: BlockId) -> Result<BlockBytes> {
        let mut bytes = Vec::with_capacity(self.block_len(group));
        for pool in self.pools(group) {
            let rows = pool.narrow(0, self.first_row(pool, block), self.block())?.to_device(&Device::Cpu)?;
            append(&rows, &mut bytes)?;
        }
        debug_assert_eq!(bytes.len(), self.block_len(group));
        Ok(BlockBytes::new(bytes))
    }

    /// Puts content that was exported into a block of the same group. Only for a block that nobody reads yet: one that the ledger
    /// has just given a place ([`adopt`](omlx_blocks::Ledger::adopt)).
    ///
    /// # Errors
    /// [`Error::BlockLen`] when the content is not as long as a block of this group; nothing is written then. Also when the device
    /// fails.
    ///
    /// # Panics
    /// When there is no such group or block.
    pub fn import(&self, group: GroupId, block: BlockId, bytes: &BlockBytes) -> Result<()> {
        let expected = self.block_len(group);
        if bytes.len() != expected {
            return Err(Error::BlockLen { group: group.index(), expected, found: bytes.len() });
        }
        let mut rest = bytes.as_slice();
        for pool in self.pools(group) {
            let row = pool.dims()[1..].iter().product::<usize>() * pool.dtype().size_in_bytes();
            let (own, after) = rest.split_at(self.block() * row);
            write_raw(pool, self.first_row(pool, block), own)?;
            rest = after;
        }
        Ok(())
    }

    /// Bytes of one block of a group, in or out.
    ///
    /// # Panics
    /// When there is no such group.
    pub fn block_len(&self, group: GroupId) -> usize {
        let len = self.layout().block_bytes(group.index(), self.block());
        usize::try_from(len).unwrap_or_else(|_| panic!("a block of {len} bytes fits no memory"))
    }

    /// Everything that stores for a group, in the order of its bytes.
    pub(crate) fn pools(&self, group: GroupId) -> impl Iterator<Item = &Tensor> {
        let layers = &self.layout().groups[group.index()].layers;
        layers.iter().flat_map(|&layer| self.layers[layer].tensors())
    }

    pub(crate) fn first_row(&self, pool: &Tensor, block: BlockId) -> usize {
        let first = block.index() * self.block();
        let slots = pool.dims()[0];
        assert!(first + self.block() <= slots, "{block:?} lies outside a pool of {slots} slots");
        first
    }
}

/// Adds a tensor's numbers as they stand in host memory.
fn append(rows: &Tensor, bytes: &mut Vec<u8>) -> Result<()> {
    let (storage, layout) = rows.storage_and_layout();
    let offsets = layout.contiguous_offsets();
    let (Storage::Cpu(storage), Some((start, end))) = (&*storage, offsets) else {
        panic!("rows of a pool are contiguous and were brought to the host")
    };
    match storage {
        CpuStorage::U8(all) => bytes.extend_from_slice(&all[start..end]),
        CpuStorage::U32(all) => bytes.extend_from_slice(bytemuck::cast_slice(&all[start..end])),
        CpuStorage::F16(all) => bytes.extend_from_slice(bytemuck::cast_slice(&all[start..end])),
        CpuStorage::BF16(all) => bytes.extend_from_slice(bytemuck::cast_slice(&all[start..end])),
        CpuStorage::F32(all) => bytes.extend_from_slice(bytemuck::cast_slice(&all[start..end])),
        _ => return Err(Error::Unstorable { dtype: rows.dtype() }),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
