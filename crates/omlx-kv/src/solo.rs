//! One sequence without a scheduler, for examples, calibration and tests.

use candle_core::Device;
use omlx_blocks::{GroupId, GroupSize, Ledger, Salt, SeqId};

use crate::{Batch, BatchRow, Error, KvCache, KvLayout, Result};

const SEQ: SeqId = SeqId(0);

/// A cache and the ledger of the one sequence in it.
///
/// Each [`step`](Self::step) names the next tokens and returns the batch to run; the same windows, tables and slots serve as
/// in a full engine.
#[derive(Debug)]
pub struct Solo {
    cache: KvCache,
    ledger: Ledger,
    tokens: Vec<u32>,
    context: usize,
}

impl Solo {
    /// Room for one sequence of `context` tokens, in blocks of `block`.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn new(layout: KvLayout, context: usize, block: usize, device: &Device) -> Result<Self> {
        let size = |reach| GroupSize { reach, blocks: context.div_ceil(block).max(1) };
        let sizes: Vec<GroupSize> = layout.groups.iter().map(|g| size(g.reach)).collect();
        let cache = KvCache::new(layout, &sizes, block, device)?;
        let mut ledger = Ledger::new(block, &sizes, Salt::of(&[]));
        ledger.open(SEQ, &[], 0);
        Ok(Self { cache, ledger, tokens: Vec::new(), context })
    }

    /// The tensors.
    pub fn cache(&self) -> &KvCache {
        &self.cache
    }

    /// All tokens so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The batch of the next tokens; the last `logits` of them want logits. The batch of the step before must have been run.
    ///
    /// # Errors
    /// [`Error::Context`] when the sequence would outgrow the cache; the sequence is unchanged then.
    pub fn step(&mut self, tokens: &[u32], logits: usize) -> Result<Batch> {
        let start = self.tokens.len();
        let end = start + tokens.len();
        if end > self.context {
            return Err(Error::Context { tokens: end, context: self.context });
        }
        self.ledger.seal(SEQ, &self.tokens, start);
        self.tokens.extend_from_slice(tokens);
        if self.ledger.grow(SEQ, end).is_err() {
            self.tokens.truncate(start);
            return Err(Error::Context { tokens: end, context: self.context });
        }
        let groups = self.ledger.groups();
        let tables = (0..groups as u32).map(|g| self.ledger.table(SEQ, GroupId(g))).collect();
        let row = BatchRow { tokens: &self.tokens[start..], start, logits, tables };
        Ok(Batch::new(&[row], groups, self.cache.block()))
    }

    /// Forgets the sequence; the next step begins a new one.
    pub fn reset(&mut self) {
        self.ledger.close(SEQ);
        self.ledger.open(SEQ, &[], 0);
        self.tokens.clear();
    }
}

#[cfg(test)]
mod tests;
