//! How a token's key and value are stored.

use std::borrow::Cow;

use candle_core::DType;

use crate::Turbo;

/// The representation of keys and values in a group's pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// As numbers of this type: f32, f16 or bf16.
    Plain(DType),
    /// As small codes.
    Turbo(Turbo),
}

impl Codec {
    /// Bytes that one head's key and value take together, for heads of `dim` numbers; scalars included.
    pub fn pair_bytes(&self, dim: usize) -> u64 {
        match self {
            Self::Plain(dtype) => 2 * (dim * dtype.size_in_bytes()) as u64,
            Self::Turbo(turbo) => turbo.pair_bytes(dim),
        }
    }

    /// A stable name, part of every prefix key: blocks of one codec never match another's.
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Plain(dtype) => dtype.as_str().into(),
            Self::Turbo(turbo) => turbo.name().into(),
        }
    }
}
