//! One sequence: tokens, computed, limit; no phases.

use omlx_blocks::SeqId;

/// A sequence that wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its id, never used before.
    pub seq: SeqId,
    /// The prompt.
    pub tokens: Vec<u32>,
    /// The most new tokens; 0 counts as 1.
    pub limit: usize,
    /// Tokens that end it.
    pub stop: Vec<u32>,
}

/// A sequence between its arrival and its end. What is not computed yet is what it still wants from a step.
#[derive(Debug)]
pub(crate) struct Seq {
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt: usize,
    pub(crate) limit: usize,
    pub(crate) stop: Vec<u32>,
    /// Tokens whose keys and values are in the cache; 0 while it waits.
    pub(crate) computed: usize,
    /// Prompt tokens that the first admission found in the cache.
    pub(crate) cached: Option<usize>,
}

impl Seq {
    pub(crate) fn new(arrival: Arrival) -> Self {
        Self {
            prompt: arrival.tokens.len(),
            tokens: arrival.tokens,
            limit: arrival.limit.max(1),
            stop: arrival.stop,
            computed: 0,
            cached: None,
        }
    }

    /// Tokens still to compute. Never 0 between steps: a sampled token is computed by the step after.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }
}
