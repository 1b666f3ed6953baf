//! Which tokens a request has seen, counted once, for the three penalties.
//!
//! Kept only for requests that ask for a penalty, and fed token by token: recounting the whole sequence at each
//! step would make a long answer quadratic. It never holds more entries than the sequence has tokens.

use std::collections::HashMap;

use omlx_api::Sampling;

/// Counts of the tokens of one sequence.
pub(crate) struct History {
    /// How often each seen id was generated; prompt-only ids stand at 0. The order of a hash map does not matter
    /// here: each id changes its own logit and no other.
    seen: HashMap<u32, u32>,
    /// Generated tokens already counted.
    counted: usize,
}

impl History {
    /// The history at the end of the prompt; `None` when no penalty is on.
    pub(crate) fn of(rules: &Sampling, prompt: &[u32]) -> Option<Self> {
        let idle = rules.repetition_penalty == 1.0 && rules.presence_penalty == 0.0 && rules.frequency_penalty == 0.0;
        (!idle).then(|| History { seen: prompt.iter().map(|&id| (id, 0)).collect(), counted: 0 })
    }

    /// Counts what was generated since the last call; `generated` is all of it.
    pub(crate) fn follow(&mut self, generated: &[u32]) {
        for &id in &generated[self.counted..] {
            *self.seen.entry(id).or_insert(0) += 1;
        }
        self.counted = generated.len();
    }

    /// Repetition over prompt and answer (the rule of transformers: divide what is positive, multiply what is
    /// negative), then presence and frequency over the answer alone (the rule of OpenAI: subtract).
    pub(crate) fn apply(&self, rules: &Sampling, row: &mut [f32]) {
        for (&id, &count) in &self.seen {
            let Some(logit) = row.get_mut(id as usize) else {
                continue;
            };
            let forbidden = *logit == f32::NEG_INFINITY;
            if *logit > 0.0 {
                *logit /= rules.repetition_penalty;
            } else {
                *logit *= rules.repetition_penalty;
            }
            if count > 0 {
                *logit -= rules.presence_penalty + rules.frequency_penalty * count as f32;
            }
            if !forbidden {
                *logit = finite(*logit);
            }
        }
    }
}

/// The nearest number that is no infinity: an extreme rule makes a token first or last, it does not break the row. What
/// has become NaN met two rules without measure and comes last.
pub(super) fn finite(logit: f32) -> f32 {
    if logit.is_nan() { f32::MIN } else { logit.clamp(f32::MIN, f32::MAX) }
}
