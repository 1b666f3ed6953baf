//! Who goes first: priorities and ageing, long prompts and short ones, and streams beside both.

use omlx_blocks::SeqId;
use omlx_sched::{Arrival, Config, Outcome, Priority, Sched, Target};

use crate::{CONFIG, arrival, check, sched, step};

fn batch(seq: u64, tokens: usize, limit: usize) -> Arrival {
    Arrival { priority: Priority::Batch, ..arrival(seq, tokens, limit) }
}

/// Steps, the first one counted as 1, until each sequence's first token.
fn first_tokens(sched: &mut Sched, seqs: &[u64]) -> Vec<usize> {
    let mut first = vec![0; seqs.len()];
    for now in 1.. {
        for outcome in step(sched).1 {
            if let Outcome::Token { seq, .. } = outcome
                && let Some(at) = seqs.iter().position(|&s| s == seq.0)
                && first[at] == 0
            {
                first[at] = now;
            }
        }
        if !first.contains(&0) {
            break;
        }
        assert!(now < 10_000, "no first token");
    }
    first
}

/// One row: the interactive one that came later starts first, until the batch one is ten steps old.
#[test]
fn interactive_goes_first_up_to_its_head_start() {
    for (age, order) in [(0, [3, 2]), (9, [3, 2]), (10, [2, 3]), (11, [2, 3])] {
        let mut sched = sched(Config { rows: 1, ..CONFIG }, 40);
        sched.arrive(arrival(1, 4, 50)).unwrap();
        step(&mut sched);
        sched.arrive(batch(2, 4, 1)).unwrap();
        (0..age).for_each(|_| drop(step(&mut sched)));
        sched.arrive(arrival(3, 4, 1)).unwrap();
        sched.cancel(SeqId(1));
        let first = first_tokens(&mut sched, &order);
        assert!(first[0] < first[1], "at {age} steps: {order:?} at {first:?}");
    }
}

/// No row is free: batch work that runs gives way, and comes back over its own prefix. Work of the same kind does not.
/// Caught: comparing arrivals where ranks are meant.
#[test]
fn interactive_takes_the_place_of_batch_work() {
    let mut sched = sched(Config { rows: 2, ..CONFIG }, 40);
    sched.arrive(batch(1, 8, 9)).unwrap();
    sched.arrive(batch(2, 8, 9)).unwrap();
    step(&mut sched);
    sched.arrive(arrival(3, 5, 2)).unwrap();
    let (plan, _) = step(&mut sched);
    assert_eq!(plan.parked, [SeqId(2)], "the youngest");
    check(&mut sched, &[&[(3, 5, 1), (1, 9, 1)], &[(1, 10, 1), (2, 8, 1)]]);
    let mut sched = crate::sched(Config { rows: 1, ..CONFIG }, 40);
    sched.arrive(batch(1, 8, 9)).unwrap();
    step(&mut sched);
    sched.arrive(batch(2, 5, 1)).unwrap();
    check(&mut sched, &[&[(1, 8, 1)]]);
}

/// A new interactive sequence in every step and one row: the batch one starts when it has aged, not later.
/// The bound: the head start, then the work of those before it.
#[test]
fn batch_work_does_not_starve() {
    for head_start in [0, 3, 20] {
        let mut sched = sched(Config { rows: 1, head_start, waiting: 100, ..CONFIG }, 40);
        sched.arrive(batch(1, 4, 1)).unwrap();
        let mut interactive = 0;
        let ended = (1..).find(|now| {
            sched.arrive(arrival(1 + now, 4, 1)).unwrap();
            interactive += 1;
            let outcomes = step(&mut sched).1;
            outcomes.iter().any(|o| matches!(o, Outcome::Done { seq: SeqId(1), .. }))
        });
        // each takes one step, so one comes and one goes, until the batch one is first
        assert_eq!(ended, Some(head_start as u64 + 1), "head start {head_start}, {interactive} came");
    }
}

/// Any number of long prompts takes the time of their sum, and exactly two are nothing special. The first of equally long ones
/// is not held up by the others.
#[test]
fn long_prompts_take_the_time_of_their_sum() {
    let config = Config { step_tokens: 64, chunk_tokens: 64, rows: 8, waiting: 8, context: 4000, ..CONFIG };
    for (prompts, tokens) in [(1, 640), (2, 640), (3, 640), (4, 640), (2, 1000), (7, 333)] {
        let mut sched = sched(config, 4000);
        (1..=prompts).for_each(|seq| sched.arrive(arrival(seq as u64, tokens, 1)).unwrap());
        let seqs: Vec<u64> = (1..=prompts as u64).collect();
        let first = first_tokens(&mut sched, &seqs);
        let expected: Vec<usize> = (1..=prompts).map(|n| (n * tokens).div_ceil(64)).collect();
        assert_eq!(first, expected, "{prompts} of {tokens}");
    }
    // one twice as long as the other: they take turns, and the sum is the same
    for (long, short, expected) in [(1280, 640, [30, 20]), (1280, 641, [20, 31]), (6400, 640, [110, 20])] {
        let mut sched = sched(config, 4000);
        sched.arrive(Arrival { seq: SeqId(1), ..arrival(1, long.min(3900), 1) }).unwrap();
        sched.arrive(arrival(2, short, 1)).unwrap();
        let mut expected = expected;
        if long > 3900 {
            expected = [(3900_usize + 640).div_ceil(64), 20];
        }
        assert_eq!(first_tokens(&mut sched, &[1, 2]), expected, "{long} and {short}");
    }
}

/// However far the long one is, and even with a second long one in line: a prompt of up to half a step has its first
/// token one step after the one it came in. Measured from its arrival that is at most two chunk times.
/// Caught: giving the oldest all it can take, and starting nobody in a full step.
#[test]
fn short_prompts_beside_a_long_one() {
    let config = Config { step_tokens: 64, chunk_tokens: 64, rows: 8, waiting: 8, context: 4000, ..CONFIG };
    for longs in 1..=3 {
        for came in 0..20 {
            for tokens in [1, 7, 31, 32] {
                let mut sched = sched(config, 4000);
                (1..=longs).for_each(|seq| sched.arrive(arrival(seq, 1000, 1)).unwrap());
                (0..came).for_each(|_| drop(step(&mut sched)));
                sched.arrive(arrival(9, tokens, 1)).unwrap();
                let first = first_tokens(&mut sched, &[9]);
                assert_eq!(first, [1], "{tokens} tokens beside {longs} at step {came}");
            }
        }
    }
    // two at once share that half; both are through in two steps
    let mut sched = sched(config, 4000);
    sched.arrive(arrival(1, 1000, 1)).unwrap();
    step(&mut sched);
    sched.arrive(arrival(2, 32, 1)).unwrap();
    sched.arrive(arrival(3, 32, 1)).unwrap();
    assert_eq!(first_tokens(&mut sched, &[2, 3]), [1, 2]);
}

/// A machine that takes 10 ms and 0.1 ms a token, and 50 ms between two tokens of a stream: chunks of 400.
/// While nobody waits for one, a step may take 150 ms: chunks of 1400.
/// Caught: the target of streams kept while nobody waits for a token, and not kept when somebody does.
#[test]
fn a_step_may_take_longer_while_nobody_decodes() {
    let target = Some(Target { micros: 50_000, idle_micros: 150_000, min_chunk: 8, depth: usize::MAX });
    let config =
        Config { step_tokens: 2048, chunk_tokens: 2048, rows: 8, waiting: 8, context: 200_000, target, ..CONFIG };
    let mut sched = sched(config, 50_000);
    let timed = |sched: &mut Sched| {
        let plan = step(sched).0;
        let tokens: usize = plan.rows.iter().map(|row| row.len).sum();
        let micros = 10_000 + 100 * tokens as u64;
        sched.took(&plan, micros);
        (plan, micros)
    };
    sched.arrive(arrival(1, 50_000, 1)).unwrap();
    assert_eq!(timed(&mut sched).0.chunk_tokens(), 2048, "nothing is known yet");
    let mut idle = 0;
    for now in 1..12 {
        let (plan, micros) = timed(&mut sched);
        idle = plan.chunk_tokens();
        assert!(now < 6 || (145_000..=151_000).contains(&micros), "step {now} took {micros}");
    }
    sched.arrive(arrival(2, 3, 1000)).unwrap();
    for now in 0..40 {
        let (plan, micros) = timed(&mut sched);
        assert_eq!(plan.rows[0].seq, SeqId(if now == 0 { 1 } else { 2 }), "the stream never waits");
        if now > 12 {
            assert!((45_000..=51_000).contains(&micros), "step {now} took {micros}");
        }
    }
    let learnt = sched.chunk();
    sched.cancel(SeqId(2));
    assert!(timed(&mut sched).0.chunk_tokens().abs_diff(idle) <= 1, "nobody waits any more");
    sched.arrive(arrival(3, 3, 1000)).unwrap();
    timed(&mut sched);
    assert!(timed(&mut sched).0.chunk_tokens().abs_diff(learnt) <= 1, "it is remembered");
}

/// A machine so slow that a step takes the least it may: not a token more, though some are cheap. A stream waits for every one of them.
/// Seen to fail: a new prompt beside the far end of a long one, which took what the long one's least would have cost.
#[test]
fn the_least_is_all_that_a_slow_step_takes() {
    let target = Some(Target { micros: 1_000, idle_micros: 1_000, min_chunk: 8, depth: 4 });
    let mut sched = sched(Config { target, ..CONFIG }, 60);
    sched.arrive(arrival(1, 1, 90)).unwrap();
    sched.arrive(arrival(2, 60, 1)).unwrap();
    for _ in 0..5 {
        let (plan, _) = step(&mut sched);
        sched.took(&plan, 1_000_000);
    }
    sched.arrive(arrival(3, 6, 1)).unwrap();
    assert_eq!(sched.chunk(), 8);
    let (plan, _) = step(&mut sched);
    assert!(plan.rows.iter().any(|row| row.seq == SeqId(3)), "{plan:?}");
    assert_eq!(plan.chunk_tokens(), 8, "{plan:?}");
}
