//! What runs next, case by case; blocks of 4 throughout.

mod fair;
mod gone;
mod press;
mod rows;

use omlx_blocks::{GroupSize, Ledger, Reach, Salt, SeqId};
use omlx_sched::{Arrival, Config, Finish, Outcome, Plan, Priority, Sampled, Sched};

const CONFIG: Config =
    Config { step_tokens: 16, rows: 4, chunk_tokens: 8, waiting: 4, context: 100, head_start: 10, target: None };

fn sched(config: Config, blocks: usize) -> Sched {
    windowed(config, &[(Reach::All, blocks)])
}

fn windowed(config: Config, groups: &[(Reach, usize)]) -> Sched {
    let size = |&(reach, blocks): &(Reach, usize)| GroupSize { reach, blocks };
    let sizes: Vec<GroupSize> = groups.iter().map(size).collect();
    Sched::new(config, Ledger::new(4, &sizes, Salt::of(&[])))
}

/// A prompt of its own: no two share a prefix.
fn arrival(seq: u64, tokens: usize, limit: usize) -> Arrival {
    Arrival {
        seq: SeqId(seq),
        tokens: (0..tokens as u32).map(|p| seq as u32 * 1000 + p).collect(),
        limit,
        stop: vec![2],
        priority: Priority::Interactive,
    }
}

/// Plans and settles one step in which every row that may sample gets token 7.
fn step(sched: &mut Sched) -> (Plan, Vec<Outcome>) {
    let plan = sched.plan();
    let outcomes = settle_any(sched, &plan);
    sched.check();
    (plan, outcomes)
}

/// The rows of each step as (sequence, start, length).
fn check(sched: &mut Sched, steps: &[&[(u64, usize, usize)]]) {
    for (i, expected) in steps.iter().enumerate() {
        let (plan, _) = step(sched);
        let rows: Vec<_> = plan.rows.iter().map(|row| (row.seq.0, row.start, row.len)).collect();
        assert_eq!(rows, *expected, "step {i}");
    }
}

fn finish(sched: &mut Sched) -> Vec<(u64, Finish)> {
    let mut done = Vec::new();
    while !sched.is_idle() {
        for outcome in step(sched).1 {
            if let Outcome::Done { seq, why } = outcome {
                done.push((seq.0, why));
            }
        }
    }
    done
}

/// Settles a plan in which every row that may sample gets token 7.
fn settle_any(sched: &mut Sched, plan: &Plan) -> Vec<Outcome> {
    let wanted = plan.rows.iter().filter(|row| row.logits > 0);
    let sampled: Vec<Sampled> = wanted.map(|row| Sampled { seq: row.seq, id: 7 }).collect();
    sched.settle(plan, &sampled)
}
