//! What an engine says about itself: counted here, published once per step.

use std::time::Duration;

use omlx_api::Snapshot;
use omlx_blocks::GroupId;
use omlx_sched::{Plan, Sched};

use crate::clock::Span;

/// Sums since the start.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    prompt_tokens: u64,
    generated_tokens: u64,
    steps: u64,
    failed_steps: u64,
    parked: u64,
    step_time: Duration,
    host_time: Duration,
}

impl Stats {
    /// Counts a step before it is settled, while its sequences are still known.
    pub(crate) fn count(&mut self, plan: &Plan, sched: &Sched) {
        self.steps += 1;
        for row in &plan.rows {
            // A parked sequence computes its answer again; that is no prompt.
            let prompt = sched.prompt_len(row.seq);
            let new = (row.start + row.len).min(prompt) - row.start.min(prompt);
            self.prompt_tokens += new as u64;
            self.generated_tokens += row.logits as u64;
        }
    }

    /// Counts the time of a step that succeeded.
    pub(crate) fn took(&mut self, span: Span) {
        self.step_time += span.whole();
        self.host_time += span.host;
    }

    /// Counts rows that gave up their blocks.
    pub(crate) fn parked(&mut self, rows: usize) {
        self.parked += rows as u64;
    }

    /// Counts a step that failed.
    pub(crate) fn failed(&mut self) {
        self.failed_steps += 1;
    }

    /// The state to publish.
    pub(crate) fn snapshot(&self, sched: &Sched) -> Snapshot {
        let ledger = sched.ledger();
        let groups = || (0..ledger.groups() as u32).map(GroupId);
        Snapshot {
            running: sched.running(),
            waiting: sched.waiting(),
            blocks_free: groups().map(|g| ledger.free_blocks(g)).sum(),
            blocks: groups().map(|g| ledger.blocks(g)).sum(),
            prompt_tokens: self.prompt_tokens,
            generated_tokens: self.generated_tokens,
            steps: self.steps,
            failed_steps: self.failed_steps,
            parked: self.parked,
            step_micros: micros(self.step_time),
            host_micros: micros(self.host_time),
        }
    }
}

/// Enough for half a million years.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
