//! What the world needs to be told.

use omlx_blocks::SeqId;

/// Why a sequence was not taken. An answer, not an error: nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// So many are waiting already.
    Full {
        /// How many are waiting.
        waiting: usize,
    },
    /// There are no tokens to start from.
    Empty,
    /// The prompt leaves no room for a single new token within the context.
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The most tokens of prompt and answer together.
        context: usize,
    },
    /// The cache could not hold the prompt even if it were alone in it.
    NeverFits {
        /// Tokens of the prompt.
        tokens: usize,
        /// The most tokens the cache holds for one sequence.
        most: usize,
    },
    /// Memory is above its hard limit. Waiting helps, a shorter prompt does not.
    Memory {
        /// Bytes in use, as the guard said.
        used_bytes: u64,
        /// The most there may be, as the guard said.
        limit_bytes: u64,
        /// How many sequences are running.
        running: usize,
        /// How many are waiting.
        waiting: usize,
    },
}

/// What a step meant for one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new token.
    Token {
        /// Whose.
        seq: SeqId,
        /// The token.
        id: u32,
    },
    /// The sequence has ended and is forgotten; nothing follows. A stop token yields only this.
    Done {
        /// Whose.
        seq: SeqId,
        /// Why it ended.
        why: Finish,
    },
    /// The sequence was taken, but could not be kept: it has ended unfinished and is forgotten.
    Refused {
        /// Whose.
        seq: SeqId,
        /// Why it ended.
        why: Refused,
    },
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It sampled one of its stop tokens.
    Stop,
    /// It reached its own limit, the context, or all that the cache can hold for one sequence.
    Length,
}
