//! The bytes of a header, taken in order, never past the file's end and never allocated on a file's word alone.

use std::io::{BufReader, Read};

use crate::error::{Error, Place, Result};

/// A reader that knows how much of the file is left and what it is reading.
pub(crate) struct Source<R> {
    inner: BufReader<R>,
    at: u64,
    file_bytes: u64,
    header_limit: u64,
    place: Place,
}

impl<R: Read> Source<R> {
    /// Reads from the start of a file of `file_bytes` bytes, at most `header_limit` of them.
    pub(crate) fn new(inner: R, file_bytes: u64, header_limit: u64) -> Self {
        let buffer_bytes = file_bytes.clamp(16, 64 << 10) as usize;
        Self {
            inner: BufReader::with_capacity(buffer_bytes, inner),
            at: 0,
            file_bytes,
            header_limit,
            place: Place::Front,
        }
    }

    /// Says what is read from here on, for messages.
    pub(crate) fn enter(&mut self, place: Place) {
        self.place = place;
    }

    /// What is being read.
    pub(crate) fn place(&self) -> Place {
        self.place.clone()
    }

    /// How many bytes were taken.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Claims the next `needs` bytes or says why they cannot be had.
    fn claim(&mut self, needs: u64) -> Result<()> {
        let end = self.at.checked_add(needs).filter(|&end| end <= self.file_bytes);
        let Some(end) = end else {
            return Err(Error::Truncated { place: self.place(), at: self.at, needs, file_bytes: self.file_bytes });
        };
        if end > self.header_limit {
            return Err(Error::HeaderTooLong { place: self.place(), limit: self.header_limit });
        }
        self.at = end;
        Ok(())
    }

    /// The next `N` bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.claim(N as u64)?;
        let mut out = [0; N];
        self.inner.read_exact(&mut out)?;
        Ok(out)
    }

    /// A 32-bit number.
    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    /// A 64-bit number.
    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// A count of things that take at least `each_bytes` bytes each; it cannot exceed what the rest of the file could hold.
    pub(crate) fn count(&mut self, each_bytes: u64) -> Result<usize> {
        let count = self.u64()?;
        let left_bytes = self.file_bytes.min(self.header_limit) - self.at;
        match usize::try_from(count) {
            Ok(n) if count <= left_bytes / each_bytes => Ok(n),
            _ => Err(Error::Count { place: self.place(), count, each_bytes, left_bytes }),
        }
    }

    /// `count` numbers of `N` bytes; the count has been checked by [`count`](Self::count).
    pub(crate) fn numbers<T, const N: usize>(&mut self, count: usize, number: fn([u8; N]) -> T) -> Result<Vec<T>> {
        let mut out = Vec::with_capacity(count);
        for _ in 0..count {
            out.push(number(self.bytes()?));
        }
        Ok(out)
    }

    /// A length and that many bytes, into `out`.
    pub(crate) fn text(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let len = self.u64()?;
        self.claim(len)?;
        out.clear();
        // claim() has checked `len` against the file, which is what lets it be a size here
        out.resize(len as usize, 0);
        self.inner.read_exact(out)?;
        Ok(())
    }

    /// A length and that many bytes, which must be a name.
    pub(crate) fn name(&mut self, limit: u64) -> Result<String> {
        let len = self.u64()?;
        if len > limit {
            return Err(Error::NameTooLong { place: self.place(), found: len, limit });
        }
        self.claim(len)?;
        let mut bytes = vec![0; len as usize];
        self.inner.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| Error::NameNotUtf8 { place: self.place() })
    }
}
