//! How fast this engine computes prompts: tokens over seconds of steps with prompts in them, old ones fading.

use std::time::Duration;

/// Seconds of steps after which what was measured counts for half.
const MEMORY_SECONDS: f64 = 4.0;
/// Steps with fewer tokens of prompts say little: most of their time went to other rows.
const LEAST: usize = 16;

/// Tokens a second.
#[derive(Debug, Default)]
pub(super) struct Rate {
    tokens: f64,
    seconds: f64,
}

impl Rate {
    pub(super) fn took(&mut self, tokens: usize, time: Duration) {
        if tokens < LEAST {
            return;
        }
        self.tokens += tokens as f64;
        self.seconds += time.as_secs_f64();
        if self.seconds > MEMORY_SECONDS {
            self.tokens /= 2.0;
            self.seconds /= 2.0;
        }
    }

    /// How long so many tokens take; `None` before anything was computed.
    pub(super) fn time(&self, tokens: usize) -> Option<Duration> {
        (self.seconds > 0.0).then(|| Duration::from_secs_f64(tokens as f64 * self.seconds / self.tokens))
    }
}

#[cfg(test)]
mod tests {
    //! Seen to fail: decode steps counted.

    use super::*;

    #[test]
    fn only_prompts_count() {
        let mut rate = Rate::default();
        assert_eq!(rate.time(100), None);
        rate.took(1, Duration::from_secs(1));
        assert_eq!(rate.time(100), None);
        (0..100).for_each(|_| rate.took(500, Duration::from_millis(500)));
        assert_eq!(rate.time(100).unwrap().as_millis(), 100);
        (0..100).for_each(|_| rate.took(500, Duration::from_millis(250)));
        assert!(rate.time(100).unwrap() < Duration::from_millis(55));
    }
}
