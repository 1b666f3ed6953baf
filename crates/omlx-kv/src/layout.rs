//! Which layers store alike, what a block of them costs, and how a memory budget is divided among them.

use omlx_blocks::{GroupSize, Reach};

use crate::{Codec, Error, Result};

/// Layers that share block tables: the same heads, reach and codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvGroup {
    /// Indices of the layers in the model.
    pub layers: Vec<usize>,
    /// Key (and value) heads per layer.
    pub heads: usize,
    /// Numbers per head.
    pub dim: usize,
    /// How far back these layers look.
    pub reach: Reach,
    /// How they store.
    pub codec: Codec,
}

/// All groups of a model.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KvLayout {
    /// In a fixed order; a group's place is its `GroupId`.
    pub groups: Vec<KvGroup>,
}

impl KvLayout {
    /// Bytes of one block of `block` tokens in every layer of group `group`.
    pub fn block_bytes(&self, group: usize, block: usize) -> u64 {
        let KvGroup { layers, heads, dim, codec, .. } = &self.groups[group];
        (layers.len() * heads * block) as u64 * codec.pair_bytes(*dim)
    }

    /// Bytes of pools of the given sizes.
    pub fn bytes(&self, sizes: &[GroupSize], block: usize) -> u64 {
        sizes.iter().enumerate().map(|(g, size)| size.blocks as u64 * self.block_bytes(g, block)).sum()
    }

    /// Divides `budget_bytes` among the groups for up to `rows` sequences of up to `context` tokens, `chunk` of them a step.
    ///
    /// Window groups get what as many rows as possible need at their peak, as long as that takes at most half; the groups that
    /// see everything share the rest in the same number of blocks. Nobody gets more than all rows could ever use.
    ///
    /// # Errors
    /// [`Error::Budget`] when not even one sequence of a single block fits.
    pub fn divide(
        &self,
        budget_bytes: u64,
        block: usize,
        context: usize,
        rows: usize,
        chunk: usize,
    ) -> Result<Vec<GroupSize>> {
        let peak = |group: &KvGroup| group.reach.peak_blocks(context, chunk, block);
        let cost = |blocks: &dyn Fn(&KvGroup) -> usize| -> u64 {
            self.groups.iter().enumerate().map(|(g, group)| blocks(group) as u64 * self.block_bytes(g, block)).sum()
        };
        let windowed = |group: &KvGroup| group.reach != Reach::All;
        let one_row = cost(&|group| if windowed(group) { peak(group) } else { 0 });
        let full_block = cost(&|group| usize::from(!windowed(group)));
        let least = one_row + full_block;
        if budget_bytes < least {
            let tokens = block.min(context);
            return Err(Error::Budget { budget_bytes, least_bytes: least, tokens });
        }
        let share = if full_block == 0 { budget_bytes } else { (budget_bytes / 2).max(one_row) };
        let window_rows = share.checked_div(one_row).map_or(rows, |n| (n as usize).clamp(1, rows));
        let left = budget_bytes - (one_row * window_rows as u64).min(budget_bytes);
        let most = context.div_ceil(block) * rows;
        let full = left.checked_div(full_block).map_or(0, |n| usize::try_from(n).unwrap_or(most).clamp(1, most));
        let size = |group: &KvGroup| GroupSize {
            reach: group.reach,
            blocks: if windowed(group) { peak(group) * window_rows } else { full },
        };
        Ok(self.groups.iter().map(size).collect())
    }
}

#[cfg(test)]
mod tests;
