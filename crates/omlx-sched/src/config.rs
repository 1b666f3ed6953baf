//! Limits: tokens per step, rows, chunk, queue, context.

/// The limits of one scheduler. All are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The most tokens in one step, all rows together.
    pub step_tokens: usize,
    /// The most sequences running at once. More than `step_tokens` would starve someone, so the smaller one counts.
    pub rows: usize,
    /// The most tokens one sequence that is catching up gets per step. Less than `step_tokens` leaves something for the
    /// next prompt in line while a long one is being read.
    pub chunk_tokens: usize,
    /// The most sequences waiting to start.
    pub waiting: usize,
    /// The most tokens of one sequence, prompt and answer together.
    pub context: usize,
}

impl Config {
    /// # Panics
    /// If a limit is 0: nothing could ever run.
    pub(crate) fn checked(self) -> Self {
        let limits = [
            ("step_tokens", self.step_tokens),
            ("rows", self.rows),
            ("chunk_tokens", self.chunk_tokens),
            ("waiting", self.waiting),
            ("context", self.context),
        ];
        for (name, limit) in limits {
            assert!(limit > 0, "{name} must be at least 1");
        }
        let rows = self.rows.min(self.step_tokens);
        Self { rows, ..self }
    }
}
