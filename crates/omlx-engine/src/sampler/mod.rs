//! From one row of logits to one token: pure functions of the row, the request's rules and its own past.
//!
//! The order, which is that of transformers with OpenAI's fields put in where they say they act:
//! 1. raw values: checked (NaN or +inf fails the request), and log-probabilities read from them;
//! 2. repetition penalty over prompt and answer, presence and frequency penalty over the answer;
//! 3. logit bias: added after the penalties, so that +100 forces and -100 forbids whatever came before;
//! 4. token mask: last of those that change logits, so that nothing brings a forbidden token back;
//! 5. temperature 0: the arg max, lowest id among equals, and the end;
//! 6. temperature, top-k, top-p, min-p, each over what the one before left (`filter.rs`);
//! 7. one draw with a number keyed by (seed, position) (`random.rs`).
//!
//! Nothing here knows about neighbours, chunks or blocks, so a request answers alike alone and in a crowd.

mod filter;
mod heat;
mod history;
mod logprobs;
mod random;
mod rank;
#[cfg(test)]
mod tests;

use omlx_api::{Logprobs, Sampling, TokenMask};

use history::History;

/// Why no token can be drawn from a row. It ends the request, not the engine: the other rows are sound.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Unsound {
    /// The model answered with NaN or an infinity.
    #[error(
        "the model's logit for token {id} is {value}; numbers overflowed or weights are damaged: \
         check the model files, or load them with a wider dtype"
    )]
    NotANumber { id: usize, value: f32 },
    /// Every token is at -inf.
    #[error("mask and logit bias leave no token that could come next; loosen the grammar or the bias")]
    NothingLeft,
}

/// One request's rules and what they need to remember.
pub(crate) struct Sampler {
    rules: Sampling,
    logprobs: Option<usize>,
    mask: Option<Box<dyn TokenMask>>,
    history: Option<History>,
}

/// What one row came to.
#[derive(Debug, PartialEq)]
pub(crate) struct Drawn {
    pub(crate) id: u32,
    pub(crate) logprobs: Option<Logprobs>,
}

/// Buffers of the size of the vocabulary, shared by all rows of an engine, one row at a time.
#[derive(Default)]
pub(crate) struct Scratch {
    row: Vec<f32>,
    allowed: Vec<bool>,
    room: filter::Room,
}

impl Sampler {
    pub(crate) fn new(
        rules: Sampling,
        logprobs: Option<usize>,
        mask: Option<Box<dyn TokenMask>>,
        prompt: &[u32],
    ) -> Self {
        let history = History::of(&rules, prompt);
        Sampler { rules, logprobs, mask, history }
    }

    /// The token after `generated`, which will stand at `position` of its sequence. `raw` is `[vocab]`.
    pub(crate) fn draw(
        &mut self,
        raw: &[f32],
        generated: &[u32],
        position: usize,
        scratch: &mut Scratch,
    ) -> Result<Drawn, Unsound> {
        let raw_peak = rank::peak(raw).map_err(|(id, value)| Unsound::NotANumber { id, value })?;
        if raw_peak == f32::NEG_INFINITY {
            return Err(Unsound::NotANumber { id: 0, value: raw_peak });
        }
        let (row, peak) = if self.changes_logits() {
            let row = self.changed(raw, generated, &mut scratch.row, &mut scratch.allowed);
            let peak = rank::peak(row).map_err(|(id, value)| Unsound::NotANumber { id, value })?;
            (row, peak)
        } else {
            (raw, raw_peak)
        };
        if peak == f32::NEG_INFINITY {
            return Err(Unsound::NothingLeft);
        }
        let id = if self.rules.temperature == 0.0 {
            first_at(row, peak)
        } else {
            let u = random::uniform(self.rules.seed, position);
            filter::draw(row, peak, &self.rules, u, &mut scratch.room)
        };
        let logprobs = self.logprobs.map(|n| logprobs::of(raw, raw_peak, id, n, &mut scratch.room));
        Ok(Drawn { id, logprobs })
    }

    fn changes_logits(&self) -> bool {
        self.history.is_some() || self.mask.is_some() || !self.rules.logit_bias.is_empty()
    }

    /// Steps 2 to 4 on a copy of the row.
    fn changed<'a>(
        &mut self,
        raw: &[f32],
        generated: &[u32],
        row: &'a mut Vec<f32>,
        allowed: &mut Vec<bool>,
    ) -> &'a [f32] {
        row.clear();
        row.extend_from_slice(raw);
        if let Some(history) = &mut self.history {
            history.follow(generated);
            history.apply(&self.rules, row);
        }
        for &(id, bias) in &self.rules.logit_bias {
            // Ids beyond the vocabulary were refused on arrival; a row that is shorter still must not panic.
            if let Some(logit) = row.get_mut(id as usize) {
                // A bias of -inf forbids; any other that leaves the range of f32 stops at its end.
                let forbidden = bias == f32::NEG_INFINITY || *logit == f32::NEG_INFINITY;
                *logit = if forbidden { f32::NEG_INFINITY } else { history::finite(*logit + bias) };
            }
        }
        if let Some(mask) = &mut self.mask {
            allowed.clear();
            allowed.resize(raw.len(), true);
            mask.allow(generated, allowed);
            for (logit, _) in row.iter_mut().zip(allowed.iter()).filter(|(_, on)| !**on) {
                *logit = f32::NEG_INFINITY;
            }
        }
        row
    }
}

/// The lowest id that has the row's highest logit.
fn first_at(row: &[f32], peak: f32) -> u32 {
    row.iter().position(|&x| x == peak).expect("the peak was read from this row") as u32
}
