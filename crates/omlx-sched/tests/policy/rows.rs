//! Rows, limits and ends.

use omlx_blocks::{Reach, SeqId};
use omlx_sched::{Arrival, Config, Finish, Outcome, Plan, Refused, Sampled};

use crate::{CONFIG, arrival, check, finish, sched, settle_any, step, windowed};

#[test]
fn idle_plans_nothing() {
    assert_eq!(sched(CONFIG, 8).plan(), Plan::default());
}

/// A long prompt joins; the decoding row keeps its token in every step.
#[test]
fn decode_never_waits_for_a_long_prompt() {
    let mut sched = sched(CONFIG, 40);
    sched.arrive(arrival(1, 3, 9)).unwrap();
    check(&mut sched, &[&[(1, 0, 3)]]);
    sched.arrive(arrival(2, 20, 9)).unwrap();
    check(
        &mut sched,
        &[&[(1, 3, 1), (2, 0, 8)], &[(1, 4, 1), (2, 8, 8)], &[(1, 5, 1), (2, 16, 4)], &[(1, 6, 1), (2, 20, 1)]],
    );
}

/// Each at most a chunk, oldest first; together they take what they would take one after the other.
#[test]
fn two_long_prompts() {
    let config = Config { step_tokens: 12, ..CONFIG };
    let mut sched = sched(config, 40);
    sched.arrive(arrival(1, 16, 1)).unwrap();
    sched.arrive(arrival(2, 20, 1)).unwrap();
    check(&mut sched, &[&[(1, 0, 8), (2, 0, 4)], &[(1, 8, 8), (2, 4, 4)], &[(2, 8, 8)], &[(2, 16, 4)]]);
    assert!(sched.is_idle());
}

/// A short prompt behind a long one gets in at once if a chunk leaves room in the step.
#[test]
fn a_short_prompt_behind_a_long_one() {
    let mut sched = sched(CONFIG, 40);
    sched.arrive(arrival(1, 60, 1)).unwrap();
    sched.arrive(arrival(2, 5, 1)).unwrap();
    check(&mut sched, &[&[(1, 0, 8), (2, 0, 5)], &[(1, 8, 8)]]);
}

#[test]
fn rows_are_limited() {
    let mut sched = sched(Config { rows: 2, ..CONFIG }, 40);
    (1..=3).for_each(|seq| sched.arrive(arrival(seq, 2, 2)).unwrap());
    check(&mut sched, &[&[(1, 0, 2), (2, 0, 2)], &[(1, 2, 1), (2, 2, 1)], &[(3, 0, 2)]]);
}

/// Two grow until a block is missing: the younger goes, and comes back over its own prefix when there is room.
/// Caught: parking the oldest, and admitting where someone has just been parked.
#[test]
fn the_youngest_is_parked_and_comes_back() {
    let mut sched = sched(CONFIG, 5);
    sched.arrive(arrival(1, 6, 9)).unwrap();
    step(&mut sched);
    sched.arrive(arrival(2, 5, 5)).unwrap();
    let (mut parked, mut starts) = (Vec::new(), Vec::new());
    while !sched.is_idle() {
        let (plan, _) = step(&mut sched);
        parked.extend(plan.parked.iter().map(|seq| seq.0));
        let long = plan.rows.iter().filter(|row| row.len > 1);
        starts.extend(long.map(|row| (row.seq.0, row.start)));
    }
    assert_eq!(parked, [2]);
    assert_eq!(starts, [(2, 0), (2, 4)], "the first block was found again");
}

/// The third does not fit beside two, and starts as soon as one of them has ended.
/// Caught: an end that does not let the head of the queue try again.
#[test]
fn the_head_of_the_queue_starts_when_someone_ends() {
    let mut sched = sched(CONFIG, 6);
    for (seq, tokens, limit) in [(1, 4, 12), (2, 7, 2), (3, 7, 1)] {
        sched.arrive(arrival(seq, tokens, limit)).unwrap();
    }
    check(&mut sched, &[&[(1, 0, 4), (2, 0, 7)], &[(1, 4, 1), (2, 7, 1)], &[(1, 5, 1), (3, 0, 7)]]);
}

/// The second does not fit beside the first one until it can share with it, which it can as soon as the first prompt is read.
/// Seen to fail: a last chunk of one token taken for an answer's token, so that the second waited for the first one's end.
#[test]
fn the_head_of_the_queue_starts_when_its_prompt_is_read() {
    for (tokens, last) in [(10, 2), (9, 1)] {
        let mut sched = sched(CONFIG, 6);
        sched.arrive(arrival(1, tokens, 9)).unwrap();
        sched.arrive(Arrival { seq: SeqId(2), ..arrival(1, tokens, 9) }).unwrap();
        check(&mut sched, &[&[(1, 0, 8)], &[(1, 8, last)]]);
        let (plan, _) = step(&mut sched);
        assert!(plan.rows.iter().any(|row| (row.seq, row.start) == (SeqId(2), 8)), "{tokens} tokens: {:?}", plan.rows);
    }
}

#[test]
fn alone_at_the_pools_limit_ends_with_length() {
    for (prompt, tokens) in [(1, 13), (8, 13), (12, 13)] {
        let mut sched = sched(CONFIG, 3);
        sched.arrive(arrival(1, prompt, 90)).unwrap();
        let mut new = 0;
        while !sched.is_idle() {
            let (_, outcomes) = step(&mut sched);
            new += outcomes.iter().filter(|o| matches!(o, Outcome::Token { .. })).count();
        }
        assert_eq!(prompt + new, tokens, "twelve computed, the last one needs no place");
    }
}

/// A window's pool that holds one window is enough for any length.
#[test]
fn a_window_outlives_its_pool() {
    let mut sched = windowed(CONFIG, &[(Reach::Last(6), 3)]);
    sched.arrive(arrival(1, 50, 40)).unwrap();
    assert_eq!(finish(&mut sched), [(1, Finish::Length)]);
}

#[test]
fn refusals_say_why() {
    let config = Config { waiting: 1, ..CONFIG };
    let mut sched = sched(config, 3);
    for (tokens, expected) in [
        (0, Refused::Empty),
        (100, Refused::TooLong { tokens: 100, context: 100 }),
        (13, Refused::NeverFits { tokens: 13, most: 12 }),
    ] {
        assert_eq!(sched.arrive(arrival(1, tokens, 1)), Err(expected));
    }
    sched.arrive(arrival(1, 12, 1)).unwrap();
    assert_eq!(sched.arrive(arrival(2, 1, 1)), Err(Refused::Full { waiting: 1 }));
    assert_eq!(finish(&mut sched), [(1, Finish::Length)]);
}

/// One sequence, tokens sampled as given: what comes out?
fn check_end(limit: usize, context: usize, ids: &[u32], tokens: usize, why: Finish) {
    let mut sched = sched(Config { context, ..CONFIG }, 40);
    let taken = sched.arrive(arrival(1, 5, limit));
    assert_eq!(taken, Ok(()));
    let mut outcomes = Vec::new();
    for &id in ids {
        let plan = sched.plan();
        outcomes.extend(sched.settle(&plan, &[Sampled { seq: SeqId(1), id }]));
    }
    assert_eq!(outcomes.pop(), Some(Outcome::Done { seq: SeqId(1), why }));
    assert_eq!(outcomes.len(), tokens, "{outcomes:?}");
    assert!(sched.is_idle());
}

#[test]
fn ends() {
    check_end(3, 100, &[7, 7, 7], 3, Finish::Length);
    check_end(0, 100, &[7], 1, Finish::Length);
    check_end(9, 7, &[7, 7], 2, Finish::Length);
    check_end(9, 100, &[2], 0, Finish::Stop);
    check_end(9, 100, &[7, 2], 1, Finish::Stop);
    check_end(1, 100, &[2], 0, Finish::Stop);
}

/// The same prompt again, shorter ones and a longer one: always at least one token is computed.
#[test]
fn cached_counts_prompt_tokens_found() {
    let mut sched = sched(CONFIG, 40);
    for (i, (tokens, cached)) in
        [(64, 0), (64, 60), (63, 60), (65, 64), (48, 44), (47, 44), (16, 12), (4, 0), (1, 0)].iter().enumerate()
    {
        let seq = SeqId(i as u64);
        sched.arrive(Arrival { seq, ..arrival(77, *tokens, 1) }).unwrap();
        assert_eq!(sched.cached(seq), 0);
        let plan = sched.plan();
        assert_eq!((sched.cached(seq), plan.rows[0].start), (*cached, *cached), "{tokens} tokens");
        assert_eq!(sched.prompt_len(seq), *tokens);
        sched.cancel(seq);
        // The plan is settled all the same; its row is ignored.
        assert!(settle_any(&mut sched, &plan).is_empty());
        sched.arrive(Arrival { seq, ..arrival(77, *tokens, 1) }).unwrap();
        finish(&mut sched);
    }
}

#[test]
#[should_panic(expected = "rows must be at least 1")]
fn a_limit_of_zero_is_a_bug() {
    sched(Config { rows: 0, ..CONFIG }, 10);
}

/// More rows than tokens in a step could starve a prompt behind decodes; the smaller number counts.
#[test]
fn more_rows_than_step_tokens() {
    let config = Config { step_tokens: 2, rows: 9, ..CONFIG };
    let mut sched = sched(config, 40);
    (1..=3).for_each(|seq| sched.arrive(arrival(seq, 1, 2)).unwrap());
    check(&mut sched, &[&[(1, 0, 1), (2, 0, 1)], &[(1, 1, 1), (2, 1, 1)], &[(3, 0, 1)]]);
}
