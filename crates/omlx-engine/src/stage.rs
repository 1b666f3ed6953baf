//! Plan to batch: the one place where integers become what the model reads.
//!
//! What must stay true: a row's tokens, its positions and its block tables come from the same plan, read between
//! `plan` and `settle`, when the tables have room for exactly the tokens of the step.

use omlx_blocks::GroupId;
use omlx_kv::{Batch, BatchRow};
use omlx_sched::{Plan, Sched};

/// The batch of one step: every row's tokens end to end, in the order of the plan.
pub(crate) fn stage(plan: &Plan, sched: &Sched) -> Batch {
    let ledger = sched.ledger();
    let groups = ledger.groups();
    let rows: Vec<BatchRow<'_>> = plan
        .rows
        .iter()
        .map(|row| BatchRow {
            tokens: &sched.tokens(row.seq)[row.start..row.start + row.len],
            start: row.start,
            logits: row.logits,
            tables: (0..groups as u32).map(|g| ledger.table(row.seq, GroupId(g))).collect(),
        })
        .collect();
    Batch::new(&rows, groups, ledger.block())
}
