//! Random numbers from the operating system, by way of the keys that std draws for its hash maps.
//!
//! Good enough for seeds and ids, which have to differ and need not be secret.

use std::hash::{BuildHasher, RandomState};

/// A number that differs from call to call and from process to process.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(())
}
