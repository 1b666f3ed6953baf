//! TurboQuant: keys and values as codes of a few bits a number, whose error nobody notices.
//!
//! A vector is rotated by random signs and a Hadamard transform, after which its numbers behave like normal ones whatever they were;
//! each is replaced by the nearest level of one codebook for the normal distribution; one f16 scalar per vector makes the squared
//! error least. Attention works on the codes: see `omlx_ops::attention_coded`. A token is coded as it is written and by itself,
//! so blocks are shared, cut back, forked and forgotten as plain ones are.

pub mod codebook;
mod setting;
mod width;

use omlx_ops::{Coding, Part, ROTATION_VERSION, Rotation};

pub use setting::{KvBits, KvStore};
pub use width::Width;

/// The version of everything that stored codes depend on: rotation, levels, order of bits.
pub const TURBO_VERSION: u32 = ROTATION_VERSION * 100 + 1;

/// How a group's keys and values are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turbo {
    /// Bits per number of keys.
    pub keys: Width,
    /// Bits per number of values.
    pub values: Width,
    /// What the rotation's signs are drawn from.
    pub seed: u64,
}

impl Turbo {
    /// Bytes of one head's key and value, scalars included.
    pub fn pair_bytes(&self, dim: usize) -> u64 {
        let side = |width: Width| ((dim * width.bits()).div_ceil(8) + size_of::<half::f16>()) as u64;
        side(self.keys) + side(self.values)
    }

    /// Names everything that codes depend on.
    pub fn name(&self) -> String {
        let Self { keys, values, seed } = self;
        format!("turbo{TURBO_VERSION}-k{}-v{}-{seed:016x}", keys.bits(), values.bits())
    }

    /// How keys and how values of `dim` numbers are coded.
    ///
    /// # Panics
    /// When `dim` is 0 or above 1024; [`KvStore`] leaves such groups plain.
    pub fn codings(&self, dim: usize) -> (Coding, Coding) {
        let coding = |width: Width, part| Coding::new(Rotation::new(dim, self.seed, part), width.book());
        (coding(self.keys, Part::Keys), coding(self.values, Part::Values))
    }
}

#[cfg(test)]
mod tests;
