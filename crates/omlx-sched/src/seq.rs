//! One sequence: tokens, computed, limit, rank; no phases.

use omlx_blocks::{SeqId, Trail};

use crate::Priority;
use crate::rank::Rank;

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
    /// How urgent it is.
    pub priority: Priority,
}

/// A sequence that begins as another one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Its id, never used before.
    pub seq: SeqId,
    /// How many of the other one's tokens are its prompt.
    pub tokens: usize,
    /// The most new tokens; 0 counts as 1.
    pub limit: usize,
    /// Tokens that end it.
    pub stop: Vec<u32>,
    /// How urgent it is.
    pub priority: Priority,
}

/// A sequence between its arrival and its end. What is not computed yet is what it still wants from a step.
#[derive(Debug)]
pub(crate) struct Seq {
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt: usize,
    pub(crate) limit: usize,
    pub(crate) stop: Vec<u32>,
    pub(crate) priority: Priority,
    pub(crate) rank: Rank,
    /// The names of its blocks, hashed once: at its arrival, and what came since when it is opened again.
    pub(crate) trail: Trail,
    /// Tokens whose keys and values are in the cache; 0 while it waits.
    pub(crate) computed: usize,
    /// It runs, but all it has was found in the cache.
    pub(crate) fresh: bool,
    /// Prompt tokens that were found in the cache before its first row.
    pub(crate) cached: Option<usize>,
}

impl Seq {
    pub(crate) fn new(arrival: Arrival, rank: Rank, trail: Trail) -> Self {
        Self {
            prompt: arrival.tokens.len(),
            tokens: arrival.tokens,
            limit: arrival.limit.max(1),
            stop: arrival.stop,
            priority: arrival.priority,
            rank,
            trail,
            computed: 0,
            fresh: false,
            cached: None,
        }
    }

    /// Tokens still to compute. Never 0 between steps: a sampled token is computed by the step after.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }
}
