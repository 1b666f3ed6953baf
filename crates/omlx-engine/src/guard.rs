//! The memory guard: one ledger of the bytes that this process has promised, and a look at what it really takes.
//!
//! Two questions, two answers. *Before* a model is loaded: how much may still be promised ([`Guard::room`])? Weights, cache
//! and the largest step are promised before they are taken, so a process cannot outgrow its limit by serving. *While* it
//! serves: is memory short ([`Guard::reading`])? That is about what is in use and not about what a request might need, so
//! no request is ever refused for its `max_tokens`. The engine asks between two steps; there is no thread, and nobody
//! looks while all are idle. Who finds memory short wakes those who sleep, so that they give back what they only keep.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use omlx_api::Bell;

mod os;
mod status;
mod tier;

pub use os::{System, free_bytes, installed_bytes};
pub use status::Status;
pub(crate) use status::Tally;
pub use tier::{Limits, Tier};

/// How long a reading stays good.
const FRESH: Duration = Duration::from_millis(100);

/// The share of the limit at its end where the soft limit begins.
const SOFT_SHARE: u64 = 16;

/// What says how much memory is in use: the operating system, or a test.
pub trait Meter: Send + Sync {
    /// How it is now; `None` where nobody says.
    fn measure(&self) -> Option<Measure>;
}

/// Memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// What this process takes.
    pub footprint_bytes: u64,
    /// What could be taken without pushing anything out; `None` where the system does not say.
    pub available_bytes: Option<u64>,
}

/// How short memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strain {
    /// There is room.
    #[default]
    None,
    /// Near the limit.
    Soft,
    /// Above the limit.
    Hard,
}

/// What the guard saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The how manieth; 0 before the first.
    pub number: u64,
    /// How short memory is.
    pub strain: Strain,
    /// What this process takes.
    pub used_bytes: u64,
    /// The most it may take, as the others are now.
    pub limit_bytes: u64,
}

/// Watches the memory of this process, for all its engines.
pub struct Guard {
    meter: Box<dyn Meter>,
    state: Mutex<State>,
}

struct State {
    limits: Limits,
    tally: Tally,
    /// Of the engines, which may be asleep on memory that others are short of.
    bells: Vec<Bell>,
    /// What the process took before it promised anything.
    base_bytes: u64,
    promised_bytes: u64,
    read_at: Option<Instant>,
    reading: Reading,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("limits", &self.limits()).finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard that keeps to `limits` by what `meter` says: [`System`] outside of tests.
    pub fn new(limits: Limits, meter: Box<dyn Meter>) -> Arc<Self> {
        let base_bytes = meter.measure().map_or(0, |now| now.footprint_bytes);
        let (tally, reading) = (Tally::default(), Reading::default());
        let state = State { limits, tally, bells: Vec::new(), base_bytes, promised_bytes: 0, read_at: None, reading };
        Arc::new(Guard { meter, state: Mutex::new(state) })
    }

    /// What it keeps to.
    pub fn limits(&self) -> Limits {
        self.state().limits
    }

    /// Keeps to other limits from now on. What is promised stays promised: where that is more than the new limit, nothing new is, and who
    /// serves is held to what the process takes, as always.
    pub fn set_limits(&self, limits: Limits) {
        let mut state = self.state();
        state.limits = limits;
        state.read_at = None; // the next question is answered anew
    }

    /// How short memory is, looked at anew if the last look is too old.
    pub fn reading(&self, now: Instant) -> Reading {
        let mut state = self.state();
        if state.read_at.is_none_or(|at| now.saturating_duration_since(at) >= FRESH) {
            self.read(&mut state, now);
        }
        state.reading
    }

    /// The same, looked at anew in any case: for who has just changed it.
    pub fn look(&self, now: Instant) -> Reading {
        let mut state = self.state();
        self.read(&mut state, now);
        state.reading
    }

    fn read(&self, state: &mut State, now: Instant) {
        state.read_at = Some(now);
        let number = state.reading.number + 1;
        // Who cannot look does not say that memory is short.
        state.reading = match self.meter.measure() {
            Some(measure) => Reading { number, ..judge(state.limits, measure) },
            None => Reading { number, limit_bytes: state.limits.most_bytes, ..Reading::default() },
        };
        if state.reading.strain != Strain::None {
            state.bells.retain(Bell::ring);
        }
    }

    /// What was seen last, by whoever looked.
    pub(crate) fn last(&self) -> Reading {
        self.state().reading
    }

    /// Has this bell rung whenever somebody finds memory short, so that an engine that sleeps gives back what it only keeps.
    pub(crate) fn wakes(&self, bell: Bell) {
        let mut state = self.state();
        state.bells.retain(Bell::is_heard); // those of engines that have ended
        state.bells.push(bell);
    }

    /// Bytes that may still be promised: what the limit leaves beside everything that is promised or in use.
    pub fn room(&self) -> u64 {
        let state = self.state();
        self.room_in(&state)
    }

    /// Bytes that could be promised if no other program took any: more is there only once a promise is given back.
    pub fn room_at_best(&self) -> u64 {
        let state = self.state();
        state.limits.most_bytes.saturating_sub(state.base_bytes + state.promised_bytes)
    }

    /// Bytes that could be promised if nothing was: what is more than that never fits.
    pub fn room_alone(&self) -> u64 {
        let state = self.state();
        state.limits.most_bytes.saturating_sub(state.base_bytes)
    }

    fn room_in(&self, state: &State) -> u64 {
        let ours = state.base_bytes + state.promised_bytes;
        match self.meter.measure() {
            Some(measure) => {
                let reading = judge(state.limits, measure);
                // What is promised but not taken yet is still counted as available.
                reading.limit_bytes.saturating_sub(reading.used_bytes.max(ours))
            }
            None => state.limits.most_bytes.saturating_sub(ours),
        }
    }

    /// Enters bytes into the ledger. They are given back when the answer is dropped.
    pub fn promise(self: &Arc<Self>, bytes: u64) -> Promise {
        self.state().promised_bytes += bytes;
        Promise { guard: Arc::clone(self), bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is half done where it could panic, so a poisoned one is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn judge(limits: Limits, Measure { footprint_bytes: used, available_bytes }: Measure) -> Reading {
    let Limits { most_bytes, spare_bytes, .. } = limits;
    let others = available_bytes.map_or(u64::MAX, |available| used + available.saturating_sub(spare_bytes));
    let limit = most_bytes.min(others);
    let short = available_bytes.is_some_and(|available| available < spare_bytes);
    let strain = match used {
        used if used > limit || short => Strain::Hard,
        used if used > limit - limit / SOFT_SHARE => Strain::Soft,
        _ => Strain::None,
    };
    Reading { number: 0, strain, used_bytes: used, limit_bytes: limit }
}

/// Bytes of one engine, or of what is kept beside the engines, in the ledger.
#[derive(Debug)]
#[must_use = "the bytes are given back when this is dropped"]
pub struct Promise {
    guard: Arc<Guard>,
    bytes: u64,
}

impl Promise {
    /// Enters more bytes.
    pub fn add(&mut self, bytes: u64) {
        self.guard.state().promised_bytes += bytes;
        self.bytes += bytes;
    }

    /// Gives some of the bytes back; no more than there are.
    pub fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.guard.state().promised_bytes -= bytes;
        self.bytes -= bytes;
    }

    /// All bytes of this entry.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whose ledger it is.
    pub fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.guard.state().promised_bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests;
