//! What an owner is shown of the guard, and the counts behind it.

use std::time::Instant;

use super::{Guard, Limits, Reading};

/// The guard at one moment, and what it has caused since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it keeps to.
    pub limits: Limits,
    /// How short memory is.
    pub reading: Reading,
    /// Bytes promised to engines, taken or not.
    pub promised_bytes: u64,
    /// Bytes that may still be promised.
    pub room_bytes: u64,
    /// Requests refused for lack of memory.
    pub refused: u64,
    /// Rows that had to give way, each time counted.
    pub parked: u64,
    /// Bytes of cached blocks that were given back to the system.
    pub given_back_bytes: u64,
}

/// Sums since the guard was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) refused: u64,
    pub(crate) parked: u64,
    pub(crate) given_back_bytes: u64,
}

impl Guard {
    /// How it is now.
    pub fn status(&self, now: Instant) -> Status {
        let reading = self.reading(now);
        let state = self.state();
        let Tally { refused, parked, given_back_bytes } = state.tally;
        Status {
            limits: state.limits,
            reading,
            promised_bytes: state.promised_bytes,
            room_bytes: self.room_in(&state),
            refused,
            parked,
            given_back_bytes,
        }
    }

    /// Adds to the counts.
    pub(crate) fn count(&self, more: Tally) {
        let tally = &mut self.state().tally;
        tally.refused += more.refused;
        tally.parked += more.parked;
        tally.given_back_bytes += more.given_back_bytes;
    }
}
