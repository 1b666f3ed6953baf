//! One sequence without a scheduler, for examples, calibration and tests.

use candle_core::Device;
use omlx_blocks::SeqId;

use crate::{Batch, Feed, KvCache, KvLayout, Result, Rows};

/// A cache with one sequence in it.
///
/// Each [`step`](Self::step) names the next tokens and returns the batch to run; the same windows, tables and slots serve as
/// in a full engine. For several sequences, and branches of one, take [`Rows`].
#[derive(Debug)]
pub struct Solo {
    rows: Rows,
    row: SeqId,
}

impl Solo {
    /// Room for one sequence of `context` tokens, in blocks of `block`.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn new(layout: KvLayout, context: usize, block: usize, device: &Device) -> Result<Self> {
        let mut rows = Rows::new(layout, 1, context, block, device)?;
        let row = rows.join(&[])?;
        Ok(Self { rows, row })
    }

    /// The tensors.
    pub fn cache(&self) -> &KvCache {
        self.rows.cache()
    }

    /// All tokens so far.
    pub fn tokens(&self) -> &[u32] {
        self.rows.tokens(self.row)
    }

    /// The batch of the next tokens, at least one; the last `logits` of them want logits. The batch of the step before must have
    /// been run.
    ///
    /// # Errors
    /// [`Error::Context`](crate::Error::Context) when the sequence would outgrow the cache; the sequence is unchanged then.
    pub fn step(&mut self, tokens: &[u32], logits: usize) -> Result<Batch> {
        self.rows.step(&[Feed { row: self.row, tokens, logits }])
    }

    /// Cuts the sequence back to exactly its first `len` tokens. What the last step fed can always be taken back.
    ///
    /// # Errors
    /// [`Error::Forgotten`](crate::Error::Forgotten) when a window has moved on; the sequence is unchanged then.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        self.rows.truncate(self.row, len)
    }

    /// Forgets the sequence; the next step begins a new one.
    pub fn reset(&mut self) {
        // Cutting to nothing is always possible, and forgets nothing that anybody could still ask for.
        let cut = self.rows.truncate(self.row, 0);
        assert!(cut.is_ok(), "cutting to nothing is refused");
    }
}

#[cfg(test)]
mod tests;
