//! Rows for benches of attention.

use omlx_ops::RowView;

/// Tokens per block.
pub(crate) const BLOCK: usize = 64;

/// Rows with blocks of their own, each row's in descending order.
pub(crate) fn view(rows: usize, tokens: usize, context: usize) -> RowView {
    let blocks = context.div_ceil(BLOCK) as u32;
    RowView {
        starts: (0..=rows).map(|row| (row * tokens) as u32).collect(),
        lens: vec![context as u32; rows],
        kept: 0,
        forgotten: vec![0; rows],
        tables: (0..rows as u32).flat_map(|row| (row * blocks..(row + 1) * blocks).rev()).collect(),
        width: blocks as usize,
        slots: vec![0; rows * tokens],
    }
}
