//! Who waits, who gives way and who is refused while memory is short.

use omlx_blocks::SeqId;
use omlx_sched::{Arrival, Config, Outcome, Pressure, Refused, Sched};

use crate::{CONFIG, arrival, check, finish, sched, step};

fn hard(rows: usize) -> Pressure {
    Pressure::Hard { rows, used_bytes: 9_000, limit_bytes: 8_000 }
}

/// Three that run and one that waits.
fn three() -> Sched {
    let mut sched = sched(CONFIG, 40);
    (1..=3).for_each(|seq| sched.arrive(arrival(seq, 4, 3 + seq as usize)).expect("it fits"));
    step(&mut sched);
    sched
}

/// Nobody is added until nobody runs; then the next one passes.
#[test]
fn soft_pressure_adds_nobody() {
    let mut sched = sched(CONFIG, 40);
    sched.press(Pressure::Soft);
    (1..=3).for_each(|seq| sched.arrive(arrival(seq, 2, 2)).unwrap());
    check(&mut sched, &[&[(1, 0, 2)], &[(1, 2, 1)], &[(2, 0, 2)], &[(2, 2, 1)]]);
    sched.press(Pressure::None);
    sched.arrive(arrival(4, 2, 1)).unwrap();
    check(&mut sched, &[&[(3, 0, 2), (4, 0, 2)]]);
}

#[test]
fn soft_pressure_parks_nobody() {
    let mut sched = three();
    sched.arrive(arrival(4, 2, 1)).unwrap();
    sched.press(Pressure::Soft);
    check(&mut sched, &[&[(1, 4, 1), (2, 4, 1), (3, 4, 1)]]);
}

/// Caught: parking the oldest, and taking newcomers in.
#[test]
fn hard_pressure_parks_the_youngest_and_takes_nobody() {
    let mut sched = three();
    assert_eq!(sched.press(hard(2)), []);
    let (plan, _) = step(&mut sched);
    assert_eq!((plan.parked, sched.running()), (vec![SeqId(3)], 2));
    let refused = Refused::Memory { used_bytes: 9_000, limit_bytes: 8_000, running: 2, waiting: 1 };
    assert_eq!(sched.arrive(arrival(4, 2, 1)), Err(refused));
    // the parked one comes back over its prefix as soon as there is one row less, pressure or not
    let came_back =
        (0..9).map(|_| step(&mut sched).0).find_map(|plan| plan.rows.iter().find(|r| r.seq.0 == 3).copied());
    assert_eq!(came_back.unwrap().start, 4);
    assert_eq!(finish(&mut sched).len(), 1);
    sched.arrive(arrival(5, 2, 1)).expect("the first always passes");
    assert_eq!(finish(&mut sched).len(), 1);
}

/// Not even one: all but the oldest are parked; if that does not help it ends, and the next one is tried.
#[test]
fn hard_pressure_ends_who_runs_alone() {
    let mut sched = three();
    assert_eq!(sched.press(hard(0)), [], "several run: first see whether parking helps");
    check(&mut sched, &[&[(1, 4, 1)]]);
    let why = Refused::Memory { used_bytes: 9_000, limit_bytes: 8_000, running: 1, waiting: 2 };
    assert_eq!(sched.press(hard(0)), [Outcome::Refused { seq: SeqId(1), why }]);
    check(&mut sched, &[&[(2, 4, 1)]]);
    sched.press(Pressure::None);
    assert_eq!(finish(&mut sched).len(), 2, "the others end as they would");
}

/// What a request might still need is no reason: a large limit is taken as a small one is (LIFE-5).
#[test]
fn a_large_limit_is_no_reason_to_refuse() {
    for pressure in [Pressure::None, Pressure::Soft, hard(1)] {
        let mut sched = sched(Config { context: 1000, ..CONFIG }, 4);
        sched.press(pressure);
        sched.arrive(arrival(1, 10, 65_536)).unwrap();
        assert_eq!(finish(&mut sched).len(), 1);
        assert_eq!(sched.arrive(arrival(2, 17, 1)), Err(Refused::NeverFits { tokens: 17, most: 16 }));
    }
}

/// What is only cached goes, the half that is worth less or all of it; what somebody runs on stays, and no answer changes.
#[test]
fn cached_blocks_are_given_up_and_held_ones_are_not() {
    let mut sched = sched(CONFIG, 40);
    sched.arrive(arrival(1, 17, 1)).unwrap();
    assert_eq!(finish(&mut sched).len(), 1); // four whole blocks are cached, and a tail of one token
    let group = omlx_blocks::GroupId(0);
    let given = |given: Vec<(omlx_blocks::GroupId, Vec<omlx_blocks::BlockId>)>| given[0].1.len();
    assert_eq!((sched.ledger().idle_blocks(group), sched.ledger().spare_blocks(group)), (5, 5));
    assert_eq!(given(sched.give_up(false)), 3);
    assert_eq!(given(sched.give_up(false)), 1);
    sched.arrive(Arrival { seq: SeqId(2), ..arrival(1, 17, 3) }).unwrap();
    let (plan, _) = step(&mut sched);
    assert_eq!(plan.rows[0].start, 4, "the front of the chain is worth most and is still here");
    assert_eq!(given(sched.give_up(true)), 0, "all that has content is held");
    sched.check();
    assert_eq!(finish(&mut sched).len(), 1);
    assert_eq!(given(sched.give_up(true)), 5);
    assert_eq!(sched.ledger().spare_blocks(group), 0);
    sched.check();
}
