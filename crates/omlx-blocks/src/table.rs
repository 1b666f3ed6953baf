//! The blocks of one sequence in one group, oldest first.
//!
//! A table only forgets at its front; positions never wrap, so position `p` is always in the block with index
//! `p / block`, or that block was forgotten and asking for it is a bug.

use std::collections::VecDeque;

use crate::{BlockId, Slot};

/// The blocks of one sequence in one group: some forgotten at the front, the rest live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTable {
    forgotten: usize,
    live: VecDeque<BlockId>,
}

impl BlockTable {
    /// Where the token at `pos` is stored.
    ///
    /// # Panics
    /// If its block was forgotten or has not been grown yet: reading on would return another sequence's keys.
    pub fn slot(&self, pos: usize, block: usize) -> Slot {
        let index = pos / block;
        let Some(id) = self.get(index) else {
            panic!("position {pos} is in block {index}, but the table holds {}..{}", self.forgotten, self.end());
        };
        Slot(id.0 * block as u32 + (pos % block) as u32)
    }

    /// How many whole blocks were forgotten at the front.
    pub fn forgotten(&self) -> usize {
        self.forgotten
    }

    /// The live blocks, oldest first; the first one has index [`forgotten`](Self::forgotten).
    pub fn live(&self) -> impl ExactSizeIterator<Item = BlockId> + '_ {
        self.live.iter().copied()
    }

    /// One past the index of the last block, forgotten ones counted.
    pub fn end(&self) -> usize {
        self.forgotten + self.live.len()
    }

    pub(crate) fn starting_at(forgotten: usize) -> Self {
        Self { forgotten, live: VecDeque::new() }
    }

    /// The block with this index, counted from the start of the sequence.
    pub(crate) fn get(&self, index: usize) -> Option<BlockId> {
        self.live.get(index.checked_sub(self.forgotten)?).copied()
    }

    pub(crate) fn push(&mut self, id: BlockId) {
        self.live.push_back(id);
    }

    pub(crate) fn pop(&mut self) -> Option<BlockId> {
        self.live.pop_back()
    }

    /// Forgets the oldest live block.
    pub(crate) fn forget(&mut self) -> Option<BlockId> {
        let id = self.live.pop_front()?;
        self.forgotten += 1;
        Some(id)
    }

    /// Puts another block of equal content in the place of block `index`.
    pub(crate) fn replace(&mut self, index: usize, id: BlockId) {
        self.live[index - self.forgotten] = id;
    }
}

#[cfg(test)]
mod tests {
    use super::BlockTable;
    use crate::{BlockId, Slot};

    fn table() -> BlockTable {
        let mut table = BlockTable::starting_at(2);
        table.push(BlockId(7));
        table.push(BlockId(3));
        table
    }

    #[test]
    fn slot_is_block_times_size_plus_offset() {
        for (pos, slot) in [(8, 28), (11, 31), (12, 12), (15, 15)] {
            assert_eq!(table().slot(pos, 4), Slot(slot), "position {pos}");
        }
    }

    #[test]
    #[should_panic(expected = "position 7 is in block 1, but the table holds 2..4")]
    fn forgotten_position_panics() {
        table().slot(7, 4);
    }

    #[test]
    #[should_panic(expected = "position 16 is in block 4, but the table holds 2..4")]
    fn position_not_grown_panics() {
        table().slot(16, 4);
    }
}
