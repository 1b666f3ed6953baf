//! Cancelled, discarded, failed; set aside and forked.

use omlx_blocks::{GroupId, Reach, SeqId};
use omlx_sched::{Arrival, Branch, Config, Finish, Plan, Priority, Refused, Sched};

use crate::{CONFIG, arrival, check, finish, sched, settle_any, step, windowed};

const G: GroupId = GroupId(0);

#[test]
fn cancel_anywhere_frees_everything() {
    let mut sched = sched(Config { rows: 1, ..CONFIG }, 10);
    sched.arrive(arrival(1, 10, 5)).unwrap();
    sched.arrive(arrival(2, 10, 5)).unwrap();
    sched.arrive(arrival(3, 10, 5)).unwrap();
    step(&mut sched);
    assert!(sched.set_aside(SeqId(3)));
    assert_eq!((sched.running(), sched.waiting()), (1, 2));
    for seq in [2, 2, 3, 3, 1, 1, 99] {
        sched.cancel(SeqId(seq));
        sched.check();
    }
    assert!(sched.is_idle());
    assert_eq!(sched.ledger().free_blocks(G), 10);
}

/// A long prompt in chunks, then its end in its third step: what the same prompt finds afterwards.
fn found_after(end: impl FnOnce(&mut Sched, SeqId)) -> usize {
    let mut sched = windowed(CONFIG, &[(Reach::All, 40), (Reach::Last(6), 40)]);
    sched.arrive(arrival(1, 30, 5)).expect("it fits");
    step(&mut sched);
    step(&mut sched);
    let plan = sched.plan();
    end(&mut sched, SeqId(1));
    assert!(settle_any(&mut sched, &plan).is_empty());
    sched.check();
    assert_eq!(sched.ledger().free_blocks(G), 40);
    sched.arrive(Arrival { seq: SeqId(2), ..arrival(1, 30, 1) }).expect("it fits");
    sched.plan();
    sched.cached(SeqId(2))
}

/// Caught: a discard that is a cancel: blocks of earlier chunks stay findable.
#[test]
fn discarded_chunks_are_not_found() {
    assert_eq!(found_after(Sched::cancel), 16);
    assert_eq!(found_after(Sched::discard), 0);
}

/// Someone who has started on blocks that then turn out to be bad, but computed nothing, starts without them.
#[test]
fn nobody_starts_on_discarded_blocks() {
    let mut sched = sched(Config { chunk_tokens: 16, ..CONFIG }, 40);
    sched.arrive(arrival(1, 16, 9)).unwrap();
    step(&mut sched);
    sched.arrive(arrival(3, 40, 9)).unwrap();
    step(&mut sched);
    // too long for the half that short prompts share, and not half as long as what the other still has
    sched.arrive(Arrival { seq: SeqId(2), tokens: (0..30).map(|p| 1000 + p).collect(), ..arrival(2, 0, 1) }).unwrap();
    let plan = sched.plan();
    assert_eq!((plan.rows.len(), sched.running()), (2, 3), "it runs without a row");
    sched.discard(SeqId(1));
    settle_any(&mut sched, &plan);
    let start = (0..9).map(|_| step(&mut sched).0).find_map(|plan| plan.rows.iter().find(|r| r.seq.0 == 2).copied());
    assert_eq!(start.unwrap().start, 0);
}

/// All of the step end, their blocks are back, and who was not in it goes on. Nothing of the step itself is found again.
/// Caught: sealing what the failed step computed.
#[test]
fn a_failed_step_ends_whom_it_held() {
    let mut sched = sched(Config { rows: 2, ..CONFIG }, 40);
    (1..=3).for_each(|seq| sched.arrive(arrival(seq, 12, 2)).unwrap());
    step(&mut sched);
    let plan = sched.plan();
    sched.cancel(SeqId(1));
    assert_eq!(sched.fail(&plan), [SeqId(2)]);
    sched.check();
    assert_eq!((sched.running(), sched.waiting(), sched.ledger().free_blocks(G)), (0, 1, 40));
    sched.arrive(Arrival { seq: SeqId(4), ..arrival(2, 13, 1) }).unwrap();
    let (plan, _) = step(&mut sched);
    assert_eq!((plan.rows[1].seq, plan.rows[1].start), (SeqId(4), 8), "only what the step before has sealed");
    assert_eq!(finish(&mut sched), [(3, Finish::Length)]);
}

/// Set aside, it blocks nobody and takes no turn; taken back, it stands where it would if it had come now.
#[test]
fn who_is_set_aside_blocks_nobody() {
    let mut sched = sched(Config { rows: 1, ..CONFIG }, 40);
    sched.arrive(arrival(1, 9, 1)).unwrap();
    assert!(sched.set_aside(SeqId(1)));
    assert!(!sched.may_run() && !sched.is_idle());
    assert_eq!(sched.plan(), Plan::default());
    sched.arrive(arrival(2, 4, 2)).unwrap();
    check(&mut sched, &[&[(2, 0, 4)]]);
    assert!(!sched.set_aside(SeqId(2)), "it runs");
    for i in (0..2).rev() {
        assert!(sched.adopt(SeqId(1), G, i, usize::MAX).is_some());
    }
    sched.take_back(SeqId(1));
    check(&mut sched, &[&[(2, 4, 1)], &[(1, 8, 1)]]);
    assert!(sched.is_idle());
    assert!(!sched.set_aside(SeqId(1)), "it has ended");
    sched.take_back(SeqId(1));
}

/// Four answers to one prompt: it is read once.
#[test]
fn forks_share_what_is_sealed() {
    let mut sched = sched(Config { chunk_tokens: 16, ..CONFIG }, 20);
    sched.arrive(arrival(1, 14, 4)).unwrap();
    step(&mut sched);
    for seq in 2..=4 {
        let branch = Branch { seq: SeqId(seq), tokens: 14, limit: 4, stop: vec![2], priority: Priority::Interactive };
        sched.fork(SeqId(1), branch).unwrap();
    }
    check(&mut sched, &[&[(1, 14, 1), (2, 12, 2), (3, 12, 2), (4, 12, 2)]]);
    assert_eq!(sched.cached(SeqId(4)), 12);
    assert_eq!(sched.ledger().free_blocks(G), 20 - 3 - 4, "three shared, one of its own each");
    let branch = |tokens| Branch { seq: SeqId(9), tokens, limit: 1, stop: vec![], priority: Priority::Batch };
    assert_eq!(sched.fork(SeqId(1), branch(0)), Err(Refused::Empty));
    assert_eq!(sched.fork(SeqId(1), branch(15)), Ok(()));
    assert_eq!(finish(&mut sched).len(), 5);
}

/// Equal long prompts that come at once: those behind start when the first has read it, and find it.
/// Caught: keeping the hit of the moment they started.
#[test]
fn equal_prompts_are_read_once() {
    let config = Config { step_tokens: 16, chunk_tokens: 16, ..CONFIG };
    let mut sched = sched(config, 60);
    for seq in 1..=3 {
        sched.arrive(Arrival { seq: SeqId(seq), ..arrival(77, 64, 1) }).unwrap();
    }
    let mut rows = Vec::new();
    while !sched.is_idle() {
        rows.extend(step(&mut sched).0.rows.iter().map(|row| (row.seq.0, row.start, row.len)));
    }
    assert_eq!(rows, [(1, 0, 16), (1, 16, 16), (1, 32, 16), (1, 48, 16), (2, 60, 4), (3, 60, 4)]);
}
