//! Never more inside than permits, in order of arrival, and a panic inside gives its turn back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::Turnstile;

/// Caught: `>` for `>=` in `enter` (one too many inside).
#[test]
fn never_more_inside_than_permits() {
    for permits in [1, 3] {
        let turnstile = Turnstile::new(permits);
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _turn = turnstile.enter();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!(most <= permits, "{most} inside with {permits} permits");
    }
}

/// Caught: the numbers not looked at.
#[test]
fn two_engines_alternate() {
    let turnstile = Turnstile::default();
    let log = Mutex::new(Vec::new());
    let start = turnstile.enter(); // both queue up behind this one
    thread::scope(|scope| {
        for who in 0..2 {
            let (turnstile, log) = (&turnstile, &log);
            scope.spawn(move || {
                for _ in 0..50 {
                    let _turn = turnstile.enter();
                    log.lock().unwrap().push(who);
                    // Longer than it takes the other to come back to the queue.
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        thread::sleep(Duration::from_millis(50));
        drop(start);
    });
    let log = log.into_inner().unwrap();
    let repeats = log.windows(2).filter(|w| w[0] == w[1]).count();
    assert!(repeats <= 30, "{repeats} of 99 turns went to the one that had just left: {log:?}");
}

#[test]
fn a_panic_gives_the_turn_back() {
    let turnstile = Arc::new(Turnstile::default());
    let other = Arc::clone(&turnstile);
    let panicked = thread::spawn(move || {
        let _turn = other.enter();
        panic!("planted");
    });
    assert!(panicked.join().is_err());
    drop(turnstile.enter());
}
