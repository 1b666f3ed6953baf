//! When to leave a disk alone that has refused a write, and when to try it again.

use std::time::{Duration, Instant};

/// The longest pause, in first ones.
const MOST: u32 = 16;

/// Whether writing is off, and until when.
#[derive(Debug)]
pub(crate) struct Pause {
    first: Duration,
    next: Duration,
    until: Option<Instant>,
}

impl Pause {
    /// Writing is on; the first pause will be this long.
    pub(crate) fn new(first: Duration) -> Self {
        Self { first, next: first, until: None }
    }

    /// Whether nothing is to be written at `now`.
    pub(crate) fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// A write was refused; answers how long to wait.
    pub(crate) fn refused(&mut self, now: Instant) -> Duration {
        let wait = self.next;
        self.until = Some(now + wait);
        self.next = (wait * 2).min(self.first * MOST);
        wait
    }

    /// A write went well; answers whether writing had been off.
    pub(crate) fn went_well(&mut self) -> bool {
        self.next = self.first;
        self.until.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Pause;
    use std::time::{Duration, Instant};

    /// Caught: a pause that starts over while it lasts; one that never grows; one that is not forgotten.
    #[test]
    fn pauses_grow_up_to_a_limit_and_start_over_after_a_good_write() {
        let (second, begin) = (Duration::from_secs(1), Instant::now());
        let mut pause = Pause::new(second);
        assert!(!pause.is_on(begin));
        for expected in [1, 2, 4, 8, 16, 16] {
            assert_eq!(pause.refused(begin), second * expected);
            assert!(pause.is_on(begin + second * expected - Duration::from_millis(1)));
            assert!(!pause.is_on(begin + second * expected));
        }
        assert!(pause.went_well() && !pause.went_well());
        assert!(!pause.is_on(begin));
        assert_eq!(pause.refused(begin), second);
    }
}
