//! Limits, strain and the ledger, on a meter that says what it is told.
//!
//! Faults seen to be caught: promised and used bytes added in place of the larger one; a promise that is never given back; every question
//! answered from the first look.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const MIB: u64 = 1 << 20;

#[derive(Clone, Default)]
struct Dial(Arc<[AtomicU64; 2]>);

impl Dial {
    fn set(&self, footprint: u64, available: u64) {
        self.0[0].store(footprint * MIB, Ordering::SeqCst);
        self.0[1].store(available * MIB, Ordering::SeqCst);
    }
}

impl Meter for Dial {
    fn measure(&self) -> Option<Measure> {
        let [footprint, available] = [0, 1].map(|i| self.0[i].load(Ordering::SeqCst));
        Some(Measure { footprint_bytes: footprint, available_bytes: Some(available) })
    }
}

fn guard(most: u64, spare: u64, footprint: u64, available: u64) -> (Arc<Guard>, Dial) {
    let dial = Dial::default();
    dial.set(footprint, available);
    (Guard::new(Limits { most_bytes: most * MIB, spare_bytes: spare * MIB, tier: None }, Box::new(dial.clone())), dial)
}

#[track_caller]
fn check(footprint: u64, available: u64, strain: Strain, limit: u64) {
    let (guard, _) = guard(1600, 100, footprint, available);
    let reading = guard.reading(Instant::now());
    assert_eq!((reading.strain, reading.limit_bytes / MIB), (strain, limit));
    assert_eq!(reading.used_bytes, footprint * MIB);
}

#[test]
fn the_own_limit_and_the_machines_end() {
    check(200, 9000, Strain::None, 1600);
    check(1500, 9000, Strain::None, 1600);
    check(1501, 9000, Strain::Soft, 1600);
    check(1600, 9000, Strain::Soft, 1600);
    check(1601, 9000, Strain::Hard, 1600);
    // Others have taken the rest.
    check(200, 300, Strain::None, 400);
    check(200, 110, Strain::Soft, 210);
    check(200, 99, Strain::Hard, 200);
    check(200, 0, Strain::Hard, 200);
}

#[test]
fn a_reading_stays_good_for_a_while() {
    let (guard, dial) = guard(1600, 0, 100, 9000);
    let begin = Instant::now();
    assert_eq!(guard.reading(begin).number, 1);
    dial.set(1700, 9000);
    assert_eq!(guard.reading(begin + FRESH / 2), Reading { number: 1, ..guard.reading(begin) });
    let later = guard.reading(begin + FRESH);
    assert_eq!((later.number, later.strain), (2, Strain::Hard));
    assert_eq!(guard.reading(begin).number, 2, "a clock that goes back does no harm");
}

#[test]
fn what_is_promised_counts_before_it_is_taken_and_once() {
    let (guard, dial) = guard(1600, 100, 100, 9000);
    assert_eq!(guard.room(), 1500 * MIB);
    let mut promise = guard.promise(400 * MIB);
    assert_eq!(guard.room(), 1100 * MIB);
    dial.set(500, 9000); // taken
    assert_eq!(guard.room(), 1100 * MIB);
    promise.add(600 * MIB);
    assert_eq!((guard.room(), promise.bytes()), (500 * MIB, 1000 * MIB));
    // The machine has less left than the limit, and 600 of it are spoken for.
    dial.set(500, 900);
    assert_eq!(guard.room(), 200 * MIB);
    dial.set(2000, 9000);
    assert_eq!(guard.room(), 0);
    drop(promise);
    dial.set(100, 9000);
    assert_eq!(guard.room(), 1500 * MIB, "thirty loads and unloads leave nothing behind");
    for _ in 0..30 {
        drop(guard.promise(1500 * MIB));
    }
    assert_eq!(guard.room(), 1500 * MIB);
}

#[test]
fn tiers_take_more_the_bolder_they_are() {
    let all = 1000 * MIB;
    let [safe, balanced, aggressive] = [Tier::Safe, Tier::Balanced, Tier::Aggressive].map(|t| Limits::of(t, all));
    assert!(safe.most_bytes < balanced.most_bytes && balanced.most_bytes < aggressive.most_bytes);
    assert!(safe.spare_bytes > balanced.spare_bytes && balanced.spare_bytes > aggressive.spare_bytes);
    assert_eq!(aggressive, Limits { most_bytes: 950 * MIB, spare_bytes: 30 * MIB, tier: Some(Tier::Aggressive) });
    assert_eq!(Limits::most(7, Some(all)), Limits { most_bytes: 7, spare_bytes: 30 * MIB, tier: None });
    assert_eq!(Limits::most(7, None), Limits { most_bytes: 7, spare_bytes: 0, tier: None });
    assert_eq!(Limits::of(Tier::Aggressive, u64::MAX).most_bytes, (u128::from(u64::MAX) * 95 / 100) as u64);
}

struct Silent;
impl Meter for Silent {
    fn measure(&self) -> Option<Measure> {
        None
    }
}

#[test]
fn who_cannot_look_still_keeps_the_ledger() {
    let guard = Guard::new(Limits { most_bytes: 100, spare_bytes: 10, tier: None }, Box::new(Silent));
    let _promise = guard.promise(70);
    assert_eq!((guard.room(), guard.reading(Instant::now()).strain), (30, Strain::None));
}

#[test]
fn limits_change_while_it_watches() {
    let (guard, dial) = guard(1600, 100, 500, 9000);
    let now = Instant::now();
    let _promise = guard.promise(300 * MIB);
    assert_eq!((guard.reading(now).strain, guard.room()), (Strain::None, 800 * MIB));
    let lower = Limits { most_bytes: 400 * MIB, ..guard.limits() };
    guard.set_limits(lower);
    assert_eq!(guard.limits(), lower);
    // Seen to fail: the reading from before kept until it was old.
    let reading = guard.reading(now);
    assert_eq!((reading.strain, reading.limit_bytes, guard.room()), (Strain::Hard, 400 * MIB, 0));
    guard.set_limits(Limits::of(Tier::Safe, 4000 * MIB));
    let status = guard.status(now);
    assert_eq!((status.reading.strain, status.limits.name()), (Strain::None, "safe"));
    // What others leave counts as before: all but the spare part.
    dial.set(500, 700);
    assert_eq!(guard.look(now).limit_bytes, (500 + 700 - 600) * MIB);
}

#[test]
fn the_status_is_limits_ledger_and_counts() {
    let (guard, _) = guard(1600, 100, 500, 9000);
    let _promise = guard.promise(300 * MIB);
    for _ in 0..2 {
        guard.count(Tally { refused: 1, parked: 2, given_back_bytes: 3 });
    }
    let status = guard.status(Instant::now());
    assert_eq!((status.promised_bytes, status.room_bytes), (300 * MIB, 800 * MIB));
    assert_eq!((status.refused, status.parked, status.given_back_bytes), (2, 4, 6));
    assert_eq!((status.reading.used_bytes, status.reading.limit_bytes), (500 * MIB, 1600 * MIB));
    assert_eq!(status.limits.name(), "custom");
}
