//! Memory that is read into, used again: what the system gives afresh it gives page by page, and clears each first, which
//! takes about as long as reading it from a fast disk.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers of one size that nobody uses at the moment.
pub(crate) struct Buffers {
    len: usize,
    most: usize,
    /// The last one given back is the next one taken: it is the one that may still be in the processor's caches, and what is
    /// never needed at the same time is never there.
    free: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// Keeps at most `most` buffers of `len` bytes.
    pub(crate) fn new(len: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { len, most, free: Mutex::default() })
    }

    /// A buffer of at least `len` bytes, whatever stands in them. One that is longer than ours is made for this once.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        if len > self.len {
            return Buffer { bytes: vec![0; len], home: None };
        }
        let used = self.free().pop();
        Buffer { bytes: used.unwrap_or_else(|| vec![0; self.len]), home: Some(Arc::clone(self)) }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffers({} of {} bytes)", self.free().len(), self.len)
    }
}

/// Bytes that go back where they came from.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    home: Option<Arc<Buffers>>,
}

impl Buffer {
    /// Bytes of their own, that nobody gets back.
    pub(crate) fn own(bytes: Vec<u8>) -> Self {
        Self { bytes, home: None }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.bytes.capacity()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            let mut free = home.free();
            if free.len() < home.most {
                free.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_is_taken_again() {
        let buffers = Buffers::new(64, 2);
        let mut one = buffers.take(10);
        one[9] = 7;
        let at = one.as_ptr();
        drop(one);
        let again = buffers.take(64);
        assert_eq!((again.as_ptr(), again[9], again.len()), (at, 7, 64));
        assert_ne!(buffers.take(1).as_ptr(), at, "it is in use");
    }

    #[test]
    fn no_more_are_kept_than_allowed_and_none_of_another_size() {
        let buffers = Buffers::new(64, 2);
        let all: Vec<Buffer> = (0..5).map(|_| buffers.take(64)).collect();
        drop(all);
        assert_eq!(buffers.free().len(), 2);
        let long = buffers.take(65);
        assert_eq!(long.len(), 65);
        drop(long);
        assert!(buffers.free().iter().all(|free| free.len() == 64), "{buffers:?}");
    }
}
