//! Memory for weights: slabs in large pages, cut into buffers.
//!
//! A decode step reads every weight once. With pages of 4 KiB the processor spends about a third of that time on address
//! translation (more in a virtual machine), and most matrices of a small model are shorter than one large page; so they share
//! slabs, and slabs ask for large pages. A slab goes back to the system with its last buffer.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use memmap2::{MmapMut, MmapOptions};

use crate::{Error, Result};

/// What slabs are multiples of, and where they start: the large page of x86-64 and of most aarch64 systems.
const LARGE: usize = 2 << 20;
/// Room of a slab that several buffers share. Only what is written takes memory.
const SLAB: usize = 32 << 20;
/// Buffers start at cache lines.
const LINE: usize = 64;

/// The slab that the next buffer is cut from, and how much of it is taken.
static OPEN: Mutex<(Weak<Slab>, usize)> = Mutex::new((Weak::new(), 0));

/// One mapping.
struct Slab {
    /// Where the first large page begins. Buffers are made of this; no reference to the mapping is made again.
    start: *mut u8,
    len: usize,
    _map: MmapMut,
}

// SAFETY: the pointer is only handed on to buffers, each for its own part.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    fn new(len: usize) -> std::io::Result<Self> {
        let len = len.next_multiple_of(LARGE);
        let mut map = MmapOptions::new().len(len + LARGE).map_anon()?;
        // Refused where the system has no large pages; everything works without.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let first = map.as_mut_ptr();
        let start = first.wrapping_add(first.align_offset(LARGE));
        Ok(Self { start, len, _map: map })
    }
}

/// Zeroed bytes that start at a cache line.
pub(crate) struct Buffer {
    start: *mut u8,
    len: usize,
    _slab: Arc<Slab>,
}

// SAFETY: a buffer alone has its part of the slab; shared references only read it.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Takes `len` bytes.
    ///
    /// # Errors
    /// When the system has no more memory to give.
    pub(crate) fn new(len: usize) -> Result<Self> {
        let failed = |source| Error::Memory { bytes: len, source };
        let taken = len.next_multiple_of(LINE);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let (slab, at) = match open.0.upgrade() {
            Some(slab) if slab.len - open.1 >= taken => (slab, open.1),
            _ => (Arc::new(Slab::new(taken.max(SLAB)).map_err(failed)?), 0),
        };
        // Of two slabs the one with more room stays open.
        let rest = slab.len - at - taken;
        let same = std::ptr::eq(open.0.as_ptr(), Arc::as_ptr(&slab));
        if same || open.0.upgrade().is_none_or(|other| other.len - open.1 < rest) {
            *open = (Arc::downgrade(&slab), at + taken);
        }
        drop(open);
        // SAFETY: a slab has `len` bytes from its start, and `at + taken` is not beyond.
        let start = unsafe { slab.start.add(at) };
        Ok(Self { start, len, _slab: slab })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes from `start` are this buffer's and were zeroed.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has a reference.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// The bytes as numbers; `T` must be one of which all bits are values, and no wider than a cache line.
    pub(crate) fn as_ptr<T>(&self) -> *const T {
        self.start.cast_const().cast()
    }

    /// As [`Self::as_ptr`], to be written; every thread its own part.
    pub(crate) fn as_mut_ptr<T>(&mut self) -> *mut T {
        self.start.cast()
    }
}

#[cfg(test)]
mod tests;
