//! The search for the right chunk against machines whose cost is known.

use super::Pace;

const MICROS: u64 = 50_000;
const LEAST: usize = 8;

/// A machine: so much for a step and so much for each token.
#[derive(Clone, Copy)]
struct Machine {
    step: u64,
    token: u64,
}

impl Machine {
    fn micros(self, tokens: usize) -> u64 {
        self.step + self.token * tokens as u64
    }

    /// The largest chunk in time.
    fn right(self) -> usize {
        let tokens = MICROS.saturating_sub(self.step) / self.token;
        (tokens as usize).clamp(LEAST, 2048)
    }
}

fn pace(start: usize) -> Pace {
    Pace::new(Some(MICROS), start, [LEAST, 2048])
}

/// From `start`, how close after so many steps with full chunks?
fn check(machine: Machine, start: usize, steps: usize) {
    let mut pace = pace(start);
    let (mut last, right) = (pace.chunk(), machine.right());
    for _ in 0..steps {
        pace.learn(pace.chunk(), machine.micros(pace.chunk()));
        let chunk = pace.chunk();
        // never past the right one: from above it falls, from below it rises
        let between =
            if start >= right { right.saturating_sub(1)..=last.max(right + 1) } else { last.min(right)..=right + 1 };
        assert!(between.contains(&chunk), "from {start} for {right}: {last} then {chunk}");
        last = chunk;
    }
    let (low, high) = (right - right / 10 - 1, right + right / 10 + 1);
    assert!((low..=high).contains(&last), "from {start} after {steps} steps: {last}, right is {right}");
}

/// Caught: rounding down where a step was quick (stuck far below), the inverse ratio, and no lower bound.
#[test]
fn converges_from_both_sides() {
    for start in [1, 8, 100, 512, 2048, 9999] {
        check(Machine { step: 0, token: 100 }, start, 8);
        check(Machine { step: 10_000, token: 100 }, start, 14);
        check(Machine { step: 25_000, token: 400 }, start, 24);
        check(Machine { step: 40_000, token: 90 }, start, 60);
        check(Machine { step: 45_000, token: 100 }, start, 160);
        // too slow for anything, and too quick to matter
        check(Machine { step: 60_000, token: 100 }, start, 60);
        check(Machine { step: 100, token: 1 }, start, 12);
    }
}

/// Caught: the last answer in place of the median.
#[test]
fn one_outlier_changes_nothing() {
    let machine = Machine { step: 10_000, token: 100 };
    let mut pace = pace(400);
    for step in 0..200 {
        let outlier = match step % 5 {
            0 => 40,
            _ => 1,
        };
        pace.learn(pace.chunk(), machine.micros(pace.chunk()) * outlier);
        assert!((395..=401).contains(&pace.chunk()), "step {step}: {}", pace.chunk());
    }
    for micros in [0, u64::MAX] {
        pace.learn(pace.chunk(), micros);
        pace.learn(pace.chunk(), machine.micros(pace.chunk()));
        pace.learn(pace.chunk(), machine.micros(pace.chunk()));
        assert!((395..=401).contains(&pace.chunk()), "after {micros}: {}", pace.chunk());
    }
}

/// Small prompts in quick steps, decodes alone, and large steps while nobody decoded do not move a chunk that is right.
/// Caught: taking every answer for telling.
#[test]
fn other_sizes_mislead_nobody() {
    let machine = Machine { step: 25_000, token: 100 };
    let mut pace = pace(250);
    for tokens in [0, 1, 3, 60, 249, 251, 400, 2048, 0, 1] {
        for _ in 0..5 {
            pace.learn(tokens, machine.micros(tokens));
        }
        assert!((225..=275).contains(&pace.chunk()), "after {tokens}: {}", pace.chunk());
    }
}

#[test]
fn without_a_target_there_is_no_limit() {
    let mut pace = Pace::new(None, 8, [1, 2048]);
    pace.learn(8, 1_000_000_000);
    assert_eq!(pace.chunk(), 2048);
}
