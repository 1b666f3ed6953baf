//! The limits of one engine, and what they come to for one model.

use omlx_blocks::{GroupSize, Ledger, Salt};
use omlx_models::Model;

use crate::Error;

/// The limits of one engine. Every number but `context` has to be at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Tokens per cache block. Small blocks share prefixes more finely, large ones cost less bookkeeping.
    pub block: usize,
    /// Most tokens computed in one step, all requests together. Bounds how long a running answer waits for its next
    /// token while prompts are read, and the memory that a step takes.
    pub step_tokens: usize,
    /// Most prompt tokens of one request in one step; at most `step_tokens` counts.
    pub chunk_tokens: usize,
    /// Most requests that are answered at once.
    pub rows: usize,
    /// Most requests that wait to be answered: as many again may stand in the mailbox during a step.
    pub waiting: usize,
    /// Bytes for keys and values, claimed when the engine starts.
    pub kv_bytes: u64,
    /// A context below the model's own; `None` takes all that model and cache allow.
    pub context: Option<usize>,
}

impl Config {
    /// The defaults, with a cache of `kv_bytes`: how much memory may be used is the one thing that has no right answer.
    pub fn new(kv_bytes: u64) -> Self {
        Config { block: 64, step_tokens: 512, chunk_tokens: 512, rows: 32, waiting: 256, kv_bytes, context: None }
    }

    /// What these limits come to for `model`; [`spawn`](crate::spawn) uses the same numbers.
    ///
    /// # Errors
    /// When a limit is 0, or the cache could not hold even one short sequence.
    pub fn fit(&self, model: &dyn Model) -> Result<Fit, Error> {
        let limits = [
            ("block", self.block),
            ("step_tokens", self.step_tokens),
            ("chunk_tokens", self.chunk_tokens),
            ("rows", self.rows),
            ("waiting", self.waiting),
            ("context", self.context.unwrap_or(1)),
        ];
        if let Some((limit, _)) = limits.into_iter().find(|&(_, value)| value == 0) {
            return Err(Error::Zero { limit });
        }
        let wished = self.context.unwrap_or(usize::MAX).min(model.context());
        let chunk = self.chunk_tokens.min(self.step_tokens);
        let mut sizes = model.layout().divide(self.kv_bytes, self.block, wished, self.rows, chunk)?;
        for size in &mut sizes {
            // Slots are counted in u32; more of them than that would be terabytes.
            size.blocks = size.blocks.min(u32::MAX as usize / self.block).max(1);
        }
        // The ledger is asked, so that the same rule decides here and for every arrival.
        let alone = Ledger::new(self.block, &sizes, Salt::of(&[])).capacity();
        Ok(Fit { sizes, context: wished.min(alone) })
    }
}

/// What a [`Config`] comes to for one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Blocks in the pool of each group of layers.
    pub sizes: Vec<GroupSize>,
    /// Most tokens of one sequence, prompt and answer together: the smallest of what the model was made for, what was
    /// asked for, and what the cache can hold for a sequence that is alone in it.
    pub context: usize,
}
