//! What an engine is asked: token ids, how to draw the next ones, and when to stop.
//!
//! Every value here is final: defaults, model settings and the wire's optional fields are resolved before a [`Generate`]
//! exists.

use std::fmt;

/// One request: continue `tokens` by at most `limit` new ones.
pub struct Generate {
    /// The whole prompt, beginning-of-sequence tokens included.
    pub tokens: Vec<u32>,
    /// How the next token is drawn.
    pub sampling: Sampling,
    /// Most new tokens, at least 1. The engine shortens it to what its context leaves.
    pub limit: usize,
    /// Ids that end the answer. Such an id is counted as a completion token but never sent as [`Event::Token`](crate::Event).
    pub stop: Vec<u32>,
    /// `None`: no log-probabilities. `Some(n)`: the chosen token's and the `n` most likely ones'.
    pub logprobs: Option<usize>,
    /// Narrows the allowed tokens before each draw (structured output).
    pub mask: Option<Box<dyn TokenMask>>,
    /// How urgent it is.
    pub priority: Priority,
}

/// How urgent a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Somebody waits for the answer.
    #[default]
    Interactive,
    /// Nobody does: it goes behind interactive requests, but is never left standing for good.
    Batch,
}

impl Generate {
    /// A greedy request that somebody waits for, without stop ids, log-probabilities or mask.
    pub fn new(tokens: Vec<u32>, limit: usize) -> Self {
        Generate {
            tokens,
            sampling: Sampling::default(),
            limit,
            stop: Vec::new(),
            logprobs: None,
            mask: None,
            priority: Priority::Interactive,
        }
    }
}

impl fmt::Debug for Generate {
    // By hand: a mask has nothing to show, and a long prompt would drown the rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generate")
            .field("tokens", &self.tokens.len())
            .field("sampling", &self.sampling)
            .field("limit", &self.limit)
            .field("stop", &self.stop)
            .field("logprobs", &self.logprobs)
            .field("mask", &self.mask.is_some())
            .field("priority", &self.priority)
            .finish()
    }
}

/// Says which tokens may come next; the engine asks it before each draw.
pub trait TokenMask: Send {
    /// Clears the entries of `allowed` (one per vocabulary entry, all `true` on entry) that may not follow `accepted`, the
    /// tokens generated so far. At least one entry has to stay `true`.
    fn allow(&mut self, accepted: &[u32], allowed: &mut [bool]);
}

/// How the next token is drawn from the logits. The default is greedy with every filter off.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 takes the most likely token; larger values flatten the distribution.
    pub temperature: f32,
    /// Keep the `k` most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of tokens whose probabilities sum to at least this; 1 keeps all.
    pub top_p: f32,
    /// Drop tokens less likely than this fraction of the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of every token seen so far; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted once from the logit of every token generated so far; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted per occurrence from the logit of every token generated so far; 0 is off.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Draws depend on this seed and the position only, so a request's answer does not depend on its neighbours.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}
