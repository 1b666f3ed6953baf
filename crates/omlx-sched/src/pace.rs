//! How many prompt tokens a step may take so that those who decode get their next token in time. Tokens are counted by their
//! cost (`cost.rs`), as if all stood at the start of a text.
//!
//! The engine hands in how long steps took; there is no clock here. A step costs something fixed and something per token,
//! neither of which is known. Scaling a chunk by target over time taken errs towards the chunk it came from: never beyond
//! the right size, from either side. So repeating it closes in from both sides and cannot swing. The median of three such
//! answers counts, so a single outlier changes nothing.

/// How long a step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Microseconds between two tokens of one answer.
    pub micros: u64,
    /// Microseconds of a step in which nobody decodes: how soon a newcomer, or somebody's leaving, is noticed. At least
    /// `micros` counts.
    pub idle_micros: u64,
    /// Prompt tokens that a step may take however slow they are: below this a prompt would never be read.
    pub min_chunk: usize,
    /// Positions back that cost as much to look at as all else that a token takes: a chunk further down a prompt than this
    /// takes over twice as long. `usize::MAX` where looking back is free.
    pub depth: usize,
}

/// The search for the right chunk.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Microseconds of a step.
    micros: Option<u64>,
    least: usize,
    most: usize,
    /// The last three answers.
    answers: [usize; 3],
    next: usize,
}

impl Pace {
    /// For steps of so many microseconds: begins at `chunk` and stays between `least` and `most`.
    pub(crate) fn new(micros: Option<u64>, chunk: usize, [least, most]: [usize; 2]) -> Self {
        let mut pace = Self { micros, least, most, answers: [0; 3], next: 0 };
        pace.answers = [pace.bounded(chunk); 3];
        pace
    }

    /// The most prompt tokens of a step.
    pub(crate) fn chunk(&self) -> usize {
        let [a, b, c] = self.answers;
        match self.micros {
            Some(_) => a.max(b).min(a.min(b).max(c)),
            None => self.most,
        }
    }

    /// A step with `tokens` prompt tokens took `micros`.
    pub(crate) fn learn(&mut self, tokens: usize, micros: u64) {
        let Some(target) = self.micros else { return };
        if tokens == 0 {
            return;
        }
        let (scaled, taken) = (tokens as u128 * u128::from(target), u128::from(micros.max(1)));
        let quick = taken < u128::from(target);
        // Rounded away from where it came from, or small chunks would get stuck.
        let answer = if quick { scaled.div_ceil(taken) } else { scaled / taken };
        let answer = self.bounded(usize::try_from(answer).unwrap_or(usize::MAX));
        let chunk = self.chunk();
        // A quick step only says that more is possible, a slow one that less is. A chunk of another size than the
        // present one may say neither.
        let telling = if quick { answer >= chunk } else { answer <= chunk };
        if telling {
            self.answers[self.next] = answer;
            self.next = (self.next + 1) % self.answers.len();
        }
    }

    fn bounded(&self, chunk: usize) -> usize {
        chunk.max(self.least).min(self.most)
    }
}

#[cfg(test)]
mod tests;
