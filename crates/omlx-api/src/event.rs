//! What an engine answers: tokens, then exactly one ending, and the reasons it can give for not answering.

use thiserror::Error;

/// One step of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// One more token. An id of [`Generate::stop`](crate::Generate::stop) is never sent.
    Token {
        /// The token drawn.
        id: u32,
        /// Its log-probabilities, where the request asked for them.
        logprobs: Option<Logprobs>,
    },
    /// The answer is complete. Nothing follows.
    Done {
        /// Why it ended.
        why: Finish,
        /// What it cost.
        usage: Usage,
    },
    /// The answer will not be completed. Nothing follows.
    Failed(Fault),
}

/// Log-probabilities at one position: raw log-softmax of the logits, before any penalty or filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// Of the token drawn.
    pub chosen: f32,
    /// Of the most likely tokens, most likely first.
    pub top: Vec<(u32, f32)>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model gave a stop id.
    Stop,
    /// The request's limit or the context's end was reached.
    Length,
}

/// Tokens used by one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt: usize,
    /// Prompt tokens whose computation was found in the cache.
    pub cached: usize,
    /// Tokens generated, a stop id included.
    pub completion: usize,
}

/// What ends a [`Ticket`](crate::Ticket) instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The engine looked at the request and will not run it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The step that this request took part in failed; the engine goes on with those that waited.
    #[error("the step that computed this answer failed: {reason}; the engine goes on, try again")]
    Step {
        /// The device's or the panic's own words.
        reason: String,
    },
    /// The engine failed for good; everything inside has failed with it.
    #[error("the engine failed and has stopped: {reason}; load the model again")]
    Engine {
        /// The device's or the panic's own words.
        reason: String,
    },
    /// The model's answer to this one request cannot be sampled from; the engine and its other requests go on.
    #[error("no next token can be drawn for this request: {reason}")]
    Unsound {
        /// What is wrong with the logits.
        reason: String,
    },
    /// The engine was stopped, or died, before the answer was complete.
    #[error("the engine stopped before the answer was complete; send the request again")]
    Stopped,
}

/// Why an engine will not run a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The prompt leaves no room for one new token.
    #[error(
        "the prompt has {tokens} tokens, the context is {context} tokens and one has to be left for the answer; shorten the prompt"
    )]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The context in tokens.
        context: usize,
    },
    /// The prompt needs more cache blocks than the engine owns, even when it runs alone.
    #[error("the prompt has {tokens} tokens, the cache holds {most} at most; give the cache more memory")]
    NeverFits {
        /// Tokens of the prompt.
        tokens: usize,
        /// Most tokens one sequence can have in this cache.
        most: usize,
    },
    /// Too many requests are waiting.
    #[error("{waiting} requests are already waiting; try again later")]
    Full {
        /// Requests waiting now.
        waiting: usize,
    },
    /// Memory is short. Waiting helps, a shorter prompt does not.
    #[error(
        "memory is short: this process takes {} MiB and may take {} MiB, with {running} requests running and {waiting} waiting; \
         try again later",
        used_bytes >> 20, limit_bytes >> 20
    )]
    Memory {
        /// Bytes that the process takes.
        used_bytes: u64,
        /// The most it may take now.
        limit_bytes: u64,
        /// Requests that are being answered.
        running: usize,
        /// Requests that wait.
        waiting: usize,
    },
    /// The prompt has no tokens.
    #[error("the prompt has no tokens; send at least one")]
    Empty,
    /// The prompt or the logit bias holds an id that the model does not know.
    #[error("token id {id} is outside the vocabulary of {vocab} tokens")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A number of the request is outside what it can mean.
    #[error("{field} has to be {expected}")]
    OutOfRange {
        /// The field of [`Generate`](crate::Generate) or [`Sampling`](crate::Sampling).
        field: &'static str,
        /// What it may be, in words.
        expected: &'static str,
    },
}

/// Why a request could not even be handed to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Busy {
    /// The mailbox is full; the engine is alive and will take requests again.
    #[error("the server has as many waiting requests as it takes; try again later")]
    Full,
    /// The engine is gone or was told to stop.
    #[error("the engine has stopped; load the model again")]
    Stopped,
}
