//! The limits of one engine, and what they come to for one model.

use std::time::Duration;

use omlx_blocks::{GroupSize, Ledger, Salt};
use omlx_models::Model;

use crate::Error;

/// Prompt tokens that a step may take however slow they are: with fewer a long prompt would never be read, and a matrix
/// product of a few rows costs nearly as much as one of these.
pub(crate) const MIN_CHUNK: usize = 32;

/// How many times longer than among streams a step may take while nobody decodes. Long enough that chunks fill a matrix
/// product, short enough that a newcomer is seen, and a leaver's place is free, in less than half a second.
pub(crate) const PATIENCE: u64 = 4;

/// The limits of one engine. Every number but `head_start` has to be at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Tokens per cache block. Small blocks share prefixes more finely, large ones cost less bookkeeping.
    pub block: usize,
    /// Most tokens computed in one step, all requests together. Bounds how long a running answer waits for its next
    /// token while prompts are read, and the memory that a step takes.
    pub step_tokens: usize,
    /// Most prompt tokens of one request in one step; at most `step_tokens` counts.
    pub chunk_tokens: usize,
    /// How long a step may take while somebody waits for the next token, and a fourth of how long it may take otherwise: prompts
    /// are read in chunks of the size that keeps to it. `None` lets every step be as large as `step_tokens`.
    pub step_time: Option<Duration>,
    /// Steps by which an interactive request may come later than batch work and still go first.
    pub head_start: usize,
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
        Config {
            block: 64,
            step_tokens: 512,
            chunk_tokens: 512,
            step_time: Some(Duration::from_millis(100)),
            head_start: 256,
            rows: 32,
            waiting: 256,
            kv_bytes,
            context: None,
        }
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
            ("step_time", self.step_time.map_or(1, |time| time.as_micros().min(1) as usize)),
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
        let kv_bytes = model.layout().bytes(&sizes, self.block);
        let step_bytes = model.step_bytes(self.step_tokens, self.rows.min(self.step_tokens));
        Ok(Fit { sizes, context: wished, capacity: alone, kv_bytes, step_bytes })
    }
}

/// What a [`Config`] comes to for one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Blocks in the pool of each group of layers.
    pub sizes: Vec<GroupSize>,
    /// Most tokens of one sequence, prompt and answer together: the smaller of what the model was made for and what was
    /// asked for.
    pub context: usize,
    /// Tokens that the cache can hold for a sequence that is alone in it. Where this is less than the context, memory is what
    /// a long prompt is refused for.
    pub capacity: usize,
    /// Bytes that the pools take.
    pub kv_bytes: u64,
    /// Bytes that the largest step takes besides, about.
    pub step_bytes: u64,
}
