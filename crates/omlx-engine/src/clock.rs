//! Whose time it is: the model's, or the host's between two passes of the model.
//!
//! Everything between the end of one pass and the beginning of the next is the host's: drawing, booking, telling, taking
//! requests, asking the guard, planning, staging. Only sleep is not, while there was nothing to do, and the wait for a turn on the
//! device. So a pass and the host's time before it are one step, and all steps together are all the time that the engine was busy.

use std::time::{Duration, Instant};

/// The time of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Between the pass before and this one.
    pub(crate) host: Duration,
    /// From the model's first op to its logits in host memory.
    pub(crate) model: Duration,
}

impl Span {
    pub(crate) fn whole(self) -> Duration {
        self.host + self.model
    }
}

#[derive(Debug)]
pub(crate) struct Clock {
    /// Since when it is whose time it is.
    since: Instant,
    /// The host's from before it slept or waited.
    carried: Duration,
}

impl Clock {
    pub(crate) fn new(now: Instant) -> Self {
        Clock { since: now, carried: Duration::ZERO }
    }

    /// Nobody's time begins: sleep, or a wait.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.carried += now.saturating_duration_since(self.since);
        self.since = now;
    }

    /// The host's time goes on.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.since = now;
    }

    /// The model's time begins.
    pub(crate) fn begins(&mut self, now: Instant) {
        self.pause(now);
    }

    /// The model's time ends, and the host's begins.
    pub(crate) fn ends(&mut self, now: Instant) -> Span {
        let model = now.saturating_duration_since(self.since);
        self.since = now;
        Span { host: std::mem::take(&mut self.carried), model }
    }

    /// A step came to nothing: neither its time nor the host's before it counts.
    pub(crate) fn restart(&mut self, now: Instant) {
        *self = Clock::new(now);
    }
}

#[cfg(test)]
mod tests {
    //! Faults seen to be caught: sleep counted as the host's; what was before a wait forgotten.

    use super::*;

    #[test]
    fn everything_but_sleep_and_waits_is_somebodys() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let span = |host, model| Span { host: Duration::from_millis(host), model: Duration::from_millis(model) };
        let mut clock = Clock::new(at(0));
        clock.pause(at(1)); // sleeps
        clock.resume(at(100));
        clock.pause(at(103)); // waits for its turn
        clock.resume(at(150));
        clock.begins(at(151));
        assert_eq!(clock.ends(at(171)), span(1 + 3 + 1, 20));
        clock.begins(at(173));
        assert_eq!(clock.ends(at(180)), span(2, 7));
        clock.begins(at(190));
        clock.restart(at(200));
        clock.begins(at(204));
        assert_eq!(clock.ends(at(205)), span(4, 1));
        assert_eq!(span(4, 1).whole(), Duration::from_millis(5));
    }
}
