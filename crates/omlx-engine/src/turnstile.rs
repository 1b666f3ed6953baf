//! Whose step it is on this device.
//!
//! A fair semaphore, held while the model computes one step: engines that share a device take turns by step and not by request, so one
//! model's long prompt delays another model's next token by one chunk at most. Fair means in order of arrival: a
//! plain mutex would let the engine that just left come in again before the one that sleeps has woken up.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The turns on one device.
#[derive(Debug)]
pub struct Turnstile {
    permits: u64,
    count: Mutex<Count>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    /// Turns asked for so far: the number the next one draws.
    drawn: u64,
    /// Turns ended so far.
    ended: u64,
}

/// One engine's turn; ends when dropped, also by a panic.
#[derive(Debug)]
#[must_use = "the turn ends when this is dropped"]
pub struct Turn<'a> {
    turnstile: &'a Turnstile,
}

impl Turnstile {
    /// Lets `permits` steps run at once (0 counts as 1). One is right until measured otherwise: two steps at once
    /// share the device's bandwidth and both get slower.
    pub fn new(permits: usize) -> Self {
        Turnstile { permits: permits.max(1) as u64, count: Mutex::default(), left: Condvar::new() }
    }

    /// Waits, asleep, for everyone who came before, and takes a turn.
    pub fn enter(&self) -> Turn<'_> {
        let mut count = self.count();
        let number = count.drawn;
        count.drawn += 1;
        // Numbers are let in in order, so those inside are never more than the numbers past the ended ones.
        while number >= count.ended + self.permits {
            count = self.left.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        Turn { turnstile: self }
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        // Nothing panics while it holds the lock, so a poisoned one is still whole.
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Turnstile {
    fn default() -> Self {
        Turnstile::new(1)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turnstile.count().ended += 1;
        self.turnstile.left.notify_all();
    }
}

#[cfg(test)]
mod tests;
