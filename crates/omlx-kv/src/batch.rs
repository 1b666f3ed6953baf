//! One step's tokens for every sequence taking part, end to end, without padding.

use omlx_blocks::BlockTable;
use omlx_ops::RowView;

/// What the batch needs to know of one sequence.
#[derive(Clone, Debug)]
pub struct BatchRow<'a> {
    /// The sequence's tokens of this step.
    pub tokens: &'a [u32],
    /// The position of the first of them.
    pub start: usize,
    /// How many of the last ones want logits.
    pub logits: usize,
    /// Its block table in each group, with room for these tokens.
    pub tables: Vec<&'a BlockTable>,
}

/// Everything a step needs, staged once for all layers. `T` tokens, `B` rows, `R` rows of logits.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// `[T]`: ids.
    pub tokens: Vec<u32>,
    /// `[T]`: each token's place in its own sequence.
    pub positions: Vec<u32>,
    /// `[B + 1]`: where each row begins.
    pub starts: Vec<u32>,
    /// `[R]`: places in the batch whose logits are wanted.
    pub wanted: Vec<u32>,
    /// Per group: where the rows' keys and values live.
    pub views: Vec<RowView>,
}

impl Batch {
    /// Lays the rows end to end. `block` is the cache's block size.
    ///
    /// # Panics
    /// When a table has no room for a row's tokens, or a row wants more logits than it has tokens.
    pub fn new(rows: &[BatchRow<'_>], groups: usize, block: usize) -> Self {
        let mut batch = Self { starts: vec![0], ..Self::default() };
        for row in rows {
            assert!(row.logits <= row.tokens.len(), "logits are wanted for tokens of this step");
            batch.tokens.extend_from_slice(row.tokens);
            batch.positions.extend((row.start..row.start + row.tokens.len()).map(|p| p as u32));
            let end = batch.tokens.len() as u32;
            batch.starts.push(end);
            batch.wanted.extend(end - row.logits as u32..end);
        }
        batch.views = (0..groups).map(|group| view(rows, group, block, &batch.starts)).collect();
        batch
    }
}

fn view(rows: &[BatchRow<'_>], group: usize, block: usize, starts: &[u32]) -> RowView {
    let width = rows.iter().map(|row| row.tables[group].live().len()).max().unwrap_or(0);
    let mut view = RowView { starts: starts.to_vec(), width, ..RowView::default() };
    for row in rows {
        let table = row.tables[group];
        let end = row.start + row.tokens.len();
        view.lens.push(end as u32);
        view.kept = table.kept() as u32;
        view.forgotten.push(table.forgotten() as u32);
        let filled = view.tables.len() + width;
        view.tables.extend(table.live().map(|id| id.0));
        view.tables.resize(filled, 0);
        view.slots.extend((row.start..end).map(|pos| table.slot(pos, block).0));
    }
    view
}

#[cfg(test)]
mod tests;
