//! From a vector to its codes and scalar. Plain loops in sixteen lanes, so that every instruction set gives the same bits.

use half::f16;

use super::Coding;
use super::pack::pack;
use crate::hadamard::MAX_DIM;
use crate::simd::{LANES, Simd};

/// Codes and scalar are found in turns; more turns gain next to nothing.
const ROUNDS: usize = 2;

/// Codes the vectors that lie end to end in `x`; each has `codes` and a scalar of its own.
///
/// # Safety
/// The instruction set of `S` exists.
#[inline(always)]
pub(super) unsafe fn encode_all<S: Simd>(coding: &Coding, x: &[f32], codes: &mut [u8], scales: &mut [f16]) {
    let codes = codes.chunks_exact_mut(coding.code_bytes());
    for ((x, codes), scale) in x.chunks_exact(coding.dim()).zip(codes).zip(scales) {
        *scale = encode(coding, x, codes);
    }
}

#[inline(always)]
fn encode(coding: &Coding, x: &[f32], packed: &mut [u8]) -> f16 {
    let dim = x.len();
    let (mut y, mut unit, mut codes) = ([0f32; MAX_DIM], [0f32; MAX_DIM], [0u8; MAX_DIM]);
    let (y, unit, codes) = (&mut y[..dim], &mut unit[..dim], &mut codes[..dim]);
    y.copy_from_slice(x);
    coding.rotation.forward(y);
    let size = (dot(y, y) / dim as f32).sqrt();
    let mut scale = size * coding.book.unit();
    // The second round's codes are of the levels nearest under the first one's scalar. Neither step of a round makes the error larger.
    for _ in 0..ROUNDS {
        let to_unit = if scale > 0.0 { coding.book.unit() / scale } else { 0.0 };
        for (unit, y) in unit.iter_mut().zip(&*y) {
            *unit = y * to_unit;
        }
        coding.book.nearest(unit, codes);
        for (level, code) in unit.iter_mut().zip(&*codes) {
            *level = coding.book.value(*code);
        }
        // least squares: no other scalar comes closer to y
        scale = dot(y, unit) / dot(unit, unit);
    }
    pack(codes, coding.book.bits(), packed);
    f16::from_f32(scale.clamp(-65504.0, 65504.0)) // as in plain pools: infinity would turn the whole row into NaN
}

/// In sixteen lanes, then halves.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            lanes[i] += a[i] * b[i];
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *lane += a * b;
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}
