//! MLX's affine format: codes in a stream of bits, lowest first, and a scale and a bias per group; kept packed.
//!
//! `w = scale * code + bias`, which is what `Packed` multiplies by. The stream of a row runs through words of 32 bits, and a code
//! of 3, 5 or 6 bits may lie in two of them.

use half::{bf16, f16};
use omlx_ops::{Packed, PackedFormat, PackedRow, Result, Zero};
use safetensors::tensor::Dtype;

use super::map::{self, words};
use crate::config::Affine;

/// A matrix as it lies in the file.
pub(crate) struct Stored<'a> {
    /// `[N, K bits / 32]` words.
    pub(crate) codes: &'a [u8],
    /// `[N, K / group]`.
    pub(crate) scales: &'a [u8],
    pub(crate) biases: &'a [u8],
    /// Of scales and biases.
    pub(crate) dtype: Dtype,
}

pub(crate) fn pack(how: Affine, stored: &Stored<'_>, dims: (usize, usize)) -> Result<Packed> {
    let Affine { bits, group } = how;
    let half = stored.dtype == Dtype::F16;
    let format = PackedFormat { bits: bits as u32, group, zero: Zero::Bias, half };
    let (row_bytes, groups) = (dims.1 * bits / 8, dims.1 / group);
    let width = groups * stored.dtype.bitsize() / 8;
    Packed::build(format, dims, |row, out: PackedRow<'_>| {
        codes(&stored.codes[row * row_bytes..][..row_bytes], bits, out.codes);
        numbers(stored.dtype, &stored.scales[row * width..][..width], out.scales);
        numbers(stored.dtype, &stored.biases[row * width..][..width], out.biases);
    })
}

/// Little-endian words one behind another are one stream of little-endian bytes.
fn codes(stream: &[u8], bits: usize, out: &mut [u8]) {
    let mask = (1u16 << bits) - 1;
    for (i, code) in out.iter_mut().enumerate() {
        let (byte, shift) = (i * bits / 8, i * bits % 8);
        let next = stream.get(byte + 1).copied().unwrap_or(0);
        *code = (u16::from_le_bytes([stream[byte], next]) >> shift & mask) as u8;
    }
}

fn numbers(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F16 => out.iter_mut().zip(words(bytes)).for_each(|(out, w)| *out = f16::from_bits(w).to_f32()),
        Dtype::BF16 => out.iter_mut().zip(words(bytes)).for_each(|(out, w)| *out = bf16::from_bits(w).to_f32()),
        _ => out.iter_mut().zip(map::floats(bytes)).for_each(|(out, w)| *out = w),
    }
}

#[cfg(test)]
mod tests;
