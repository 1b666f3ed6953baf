//! Limits: tokens per step, rows, chunk, queue, context, head start, and the time a step may take.

use crate::Target;

/// The limits of one scheduler. All are at least 1, but a head start may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The most tokens in one step, all rows together.
    pub step_tokens: usize,
    /// The most sequences running at once. More than `step_tokens` would starve someone, so the smaller one counts.
    pub rows: usize,
    /// The most tokens one sequence that is catching up gets per step; at most `step_tokens` counts. With a target it is
    /// also where the search for the right chunk begins.
    pub chunk_tokens: usize,
    /// The most sequences waiting to start.
    pub waiting: usize,
    /// The most tokens of one sequence, prompt and answer together.
    pub context: usize,
    /// Steps by which an interactive sequence may come later than a batch one and still go first.
    pub head_start: usize,
    /// How long a step may take; `None` lets every step be as large as it can.
    pub target: Option<Target>,
}

impl Config {
    /// Prompt tokens that every step may take, however slow they are.
    pub(crate) fn min_chunk(&self) -> usize {
        self.target.map_or(1, |target| target.min_chunk)
    }

    /// # Panics
    /// If a limit is 0: nothing could ever run.
    pub(crate) fn checked(self) -> Self {
        let target = self.target.unwrap_or(Target { micros: 1, idle_micros: 1, min_chunk: 1, depth: 1 });
        let limits = [
            ("step_tokens", self.step_tokens),
            ("rows", self.rows),
            ("chunk_tokens", self.chunk_tokens),
            ("waiting", self.waiting),
            ("context", self.context),
            ("min_chunk", target.min_chunk),
            ("target", usize::from(target.micros > 0)),
        ];
        for (name, limit) in limits {
            assert!(limit > 0, "{name} must be at least 1");
        }
        let rows = self.rows.min(self.step_tokens);
        let chunk_tokens = self.chunk_tokens.min(self.step_tokens);
        Self { rows, chunk_tokens, ..self }
    }
}
