//! The blocks of one sequence in one group, oldest first.
//!
//! A table forgets only at the front of its window; positions never wrap, so position `p` is always in the block with index
//! `p / block`, or that block was forgotten and asking for it is a bug. Blocks kept from the start stand before the
//! window: between the two there is a gap, as long as what was forgotten.

use std::collections::VecDeque;
use std::ops::Range;

use crate::{BlockId, Slot};

/// The blocks of one sequence in one group: some kept from the start, some forgotten, the rest live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTable {
    /// Blocks at the start that are never forgotten, once they are there.
    kept: usize,
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
            let (gap, end) = (self.gap(), self.end());
            let kept = if gap.start > 0 && !gap.is_empty() { format!("0..{} and ", gap.start) } else { String::new() };
            let window = if gap.is_empty() { 0 } else { gap.end };
            panic!("position {pos} is in block {index}, but the table holds {kept}{window}..{end}");
        };
        Slot(id.0 * block as u32 + (pos % block) as u32)
    }

    /// How many whole blocks were forgotten: of [`live`](Self::live), block `i` has index `i` if it is one of the
    /// [`kept`](Self::kept) ones, else `i` and this number.
    pub fn forgotten(&self) -> usize {
        self.forgotten
    }

    /// How many blocks at the start are never forgotten; 0 unless the group's reach keeps some.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// The indices of the forgotten blocks: after the kept ones, before the window.
    pub fn gap(&self) -> Range<usize> {
        self.kept..self.kept + self.forgotten
    }

    /// The live blocks, oldest first: kept ones, then the window's, which begin at the end of the [`gap`](Self::gap).
    pub fn live(&self) -> impl ExactSizeIterator<Item = BlockId> + '_ {
        self.live.iter().copied()
    }

    /// One past the index of the last block, forgotten ones counted.
    pub fn end(&self) -> usize {
        self.forgotten + self.live.len()
    }

    pub(crate) fn starting_at(kept: usize, forgotten: usize) -> Self {
        Self { kept, forgotten, live: VecDeque::new() }
    }

    /// The block with this index, counted from the start of the sequence.
    pub(crate) fn get(&self, index: usize) -> Option<BlockId> {
        self.live.get(self.place(index)?).copied()
    }

    /// Where in `live` the block with this index stands, if it was not forgotten.
    fn place(&self, index: usize) -> Option<usize> {
        match index < self.kept {
            true => Some(index),
            false => index.checked_sub(self.forgotten).filter(|&at| at >= self.kept),
        }
    }

    pub(crate) fn push(&mut self, id: BlockId) {
        self.live.push_back(id);
    }

    /// Takes off the last block, if its index is `blocks` or more. Where nothing is left behind the gap, the gap is cut
    /// too: it never reaches beyond what the table covers.
    pub(crate) fn pop_beyond(&mut self, blocks: usize) -> Option<BlockId> {
        if self.live.len() <= self.kept {
            self.forgotten = self.forgotten.min(blocks.saturating_sub(self.kept));
        }
        if self.end() > blocks { self.live.pop_back() } else { None }
    }

    /// Forgets the oldest live block that is not kept.
    pub(crate) fn forget(&mut self) -> Option<BlockId> {
        let id = self.live.remove(self.kept)?;
        self.forgotten += 1;
        Some(id)
    }

    /// Puts another block of equal content in the place of block `index`.
    pub(crate) fn replace(&mut self, index: usize, id: BlockId) {
        let place = self.place(index);
        let place = place.unwrap_or_else(|| panic!("block {index} was forgotten"));
        self.live[place] = id;
    }
}

#[cfg(test)]
mod tests;
