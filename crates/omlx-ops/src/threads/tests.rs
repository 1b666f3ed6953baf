//! Every task runs once, from one caller or several, and a panic reaches the caller without breaking the pool.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn check(tasks: usize) {
    let hits: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
    for_each(tasks, |i| {
        hits[i].fetch_add(1, Ordering::Relaxed);
    });
    assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
}

#[test]
fn every_task_once() {
    for tasks in [0, 1, 2, 3, 64, 1000] {
        for _ in 0..200 {
            check(tasks);
        }
    }
}

#[test]
fn several_callers_at_once() {
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..500).for_each(|_| check(7)));
        }
    });
}

#[test]
fn sleeping_workers_wake_up() {
    check(8);
    std::thread::sleep(std::time::Duration::from_millis(50));
    check(8);
}

#[test]
fn a_panic_is_passed_on_and_the_pool_lives() {
    let result = std::panic::catch_unwind(|| for_each(16, |i| assert!(i != 5, "task five")));
    assert!(result.is_err());
    check(16);
}

#[test]
fn rows_are_filled_in_place() {
    let mut out = vec![0f32; 12 * 5];
    for_rows(&mut out, 5, 1, |row, part| part.fill(row as f32));
    assert!(out.iter().enumerate().all(|(i, v)| *v == (i / 5) as f32));
}
