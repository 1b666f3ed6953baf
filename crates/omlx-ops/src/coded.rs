//! Vectors stored as small codes: rotated, each number replaced by the code of the nearest level of a fixed codebook, and one scalar
//! per vector that makes the squared error least.
//!
//! With `y = R x` the codes are those of the levels `c` nearest to `y · √d / ‖x‖`, the scalar is `s = ⟨y, c⟩ / ⟨c, c⟩`, then both once more
//! with the levels nearest to `y / s`. The scalar is stored as f16, and what is read back is `R⁻¹ (s · c)`. A vector is coded by itself: nothing depends on its neighbours or on when it comes.

mod book;
mod encode;
mod pack;
mod slots;

use half::f16;

pub use book::Codebook;
pub(crate) use book::Levels;
pub(crate) use pack::unpack;
pub(crate) use slots::parts;
pub use slots::{Coded, read_codes, write_codes};

use crate::hadamard::{MAX_DIM, Rotation};
use crate::simd::{Isa, for_isa};
use crate::{Error, Result};

/// How the vectors of a pool are coded.
#[derive(Clone, Debug, PartialEq)]
pub struct Coding {
    pub(crate) rotation: Rotation,
    pub(crate) book: Codebook,
}

impl Coding {
    /// Coding by these.
    pub fn new(rotation: Rotation, book: Codebook) -> Self {
        Self { rotation, book }
    }

    /// Numbers per vector.
    pub fn dim(&self) -> usize {
        self.rotation.dim()
    }

    /// Bits per number.
    pub fn bits(&self) -> usize {
        self.book.bits()
    }

    /// Bytes of a vector's codes. The scalar takes two more.
    pub fn code_bytes(&self) -> usize {
        (self.dim() * self.bits()).div_ceil(8)
    }

    /// Codes vectors that lie end to end.
    ///
    /// # Errors
    /// When `x` is not vectors of the coding's size, one for each of `scales`, or `codes` not room for their codes.
    pub fn encode(&self, x: &[f32], codes: &mut [u8], scales: &mut [f16]) -> Result<()> {
        self.encode_with(Isa::best(), x, codes, scales)
    }

    pub(crate) fn encode_with(&self, isa: Isa, x: &[f32], codes: &mut [u8], scales: &mut [f16]) -> Result<()> {
        self.fits(x.len(), codes.len(), scales.len())?;
        let coding = self;
        use encode::encode_all;
        for_isa!(isa, encode_all::<>(coding: &Coding, x: &[f32], codes: &mut [u8], scales: &mut [f16]));
        Ok(())
    }

    /// What codes and scalars stand for: the obvious version, which every kernel is tested against.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode).
    pub fn decode(&self, codes: &[u8], scales: &[f16], x: &mut [f32]) -> Result<()> {
        self.fits(x.len(), codes.len(), scales.len())?;
        let mut plain = [0u8; MAX_DIM];
        let plain = &mut plain[..self.dim()];
        let vectors = x.chunks_exact_mut(self.dim()).zip(codes.chunks_exact(self.code_bytes()));
        for ((x, codes), scale) in vectors.zip(scales) {
            unpack(codes, self.bits(), plain);
            for (x, code) in x.iter_mut().zip(&*plain) {
                *x = scale.to_f32() * self.book.value(*code);
            }
            self.rotation.inverse(x);
        }
        Ok(())
    }

    fn fits(&self, numbers: usize, bytes: usize, vectors: usize) -> Result<()> {
        let check = |what, expected: usize, found: usize| match expected == found {
            true => Ok(()),
            false => Err(Error::shape("coding", what, expected, found)),
        };
        check("numbers", vectors * self.dim(), numbers)?;
        check("bytes of codes", vectors * self.code_bytes(), bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests;
