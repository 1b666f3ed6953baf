//! Activations as small integers: 32 numbers of a row share a scale, `x = scale * code`, codes in -127..=127.
//!
//! This is how packed weights are multiplied on the CPU. The error of a number is at most half a scale, which is 1/254 of the
//! largest of its 32; weights of 8 bits and fewer are rounded no finer.

use crate::simd::{Isa, Simd, for_isa};
use crate::threads::{self, SharedMut};

/// Numbers that share a scale.
pub(super) const SHARE: usize = 32;
/// Below this a number counts as zero, as its reciprocal may be none.
const TINY: f32 = 1e-30;
/// Numbers that are worth a task of their own.
const GRAIN: usize = 1 << 14;

/// Rows of `x [M, K]` as integers; `K` is a multiple of 32.
#[derive(Debug)]
pub(super) struct Acts {
    pub(super) codes: Vec<i8>,      // [M, K]
    pub(super) scales: Vec<f32>,    // [M, K / 32]
    pub(super) sums: Vec<i32>,      // [M, K / 32], of the codes
    pub(super) half_sums: Vec<i32>, // [M, K / 16], for weights in groups of 16
}

impl Acts {
    /// Rounds `rows` rows of `cols` numbers, each `stride` behind the one before.
    pub(super) fn new(isa: Isa, x: &[f32], (rows, stride, cols): (usize, usize, usize)) -> Self {
        assert_eq!(cols % SHARE, 0, "packed rows are whole groups");
        let mut codes = vec![0i8; rows * cols];
        let mut scales = vec![0f32; rows * cols / SHARE];
        let mut sums = vec![0i32; rows * cols / SHARE];
        let mut half_sums = vec![0i32; 2 * sums.len()];
        let (out, out_scales) = (SharedMut::new(&mut codes), SharedMut::new(&mut scales));
        let (out_sums, out_halves) = (SharedMut::new(&mut sums), SharedMut::new(&mut half_sums));
        let shares = cols / SHARE;
        let each = (GRAIN / cols.max(1)).max(1);
        threads::for_each(rows.div_ceil(each), |task| {
            for row in task * each..((task + 1) * each).min(rows) {
                let x = &x[row * stride..][..cols];
                // SAFETY: each row belongs to one task.
                let out = unsafe {
                    Row {
                        codes: out.slice(row * cols, cols),
                        scales: out_scales.slice(row * shares, shares),
                        sums: out_sums.slice(row * shares, shares),
                        half_sums: out_halves.slice(2 * row * shares, 2 * shares),
                    }
                };
                for_isa!(isa, round::<>(x: &[f32], out: Row<'_>));
            }
        });
        Self { codes, scales, sums, half_sums }
    }
}

struct Row<'a> {
    codes: &'a mut [i8],
    scales: &'a mut [f32],
    sums: &'a mut [i32],
    half_sums: &'a mut [i32],
}

/// Plain loops that the compiler turns into vectors of the set; nothing here depends on the order of rounding.
#[inline(always)]
unsafe fn round<S: Simd>(x: &[f32], out: Row<'_>) {
    let Row { codes, scales, sums, half_sums } = out;
    let shares = x.chunks_exact(SHARE).zip(codes.chunks_exact_mut(SHARE));
    let sums = sums.iter_mut().zip(half_sums.chunks_exact_mut(2));
    for ((x, codes), (scale, (sum, halves))) in shares.zip(scales.iter_mut().zip(sums)) {
        // As integers, so that a NaN is the largest of all and is not lost.
        let mut largest = 0u32;
        for x in x {
            largest = largest.max(x.to_bits() & 0x7fff_ffff);
        }
        let largest = f32::from_bits(largest);
        if !largest.is_finite() {
            // The result must show it.
            *scale = f32::NAN;
            continue;
        }
        if largest < TINY {
            continue;
        }
        *scale = largest / 127.0;
        let inverse = 127.0 / largest;
        for (code, x) in codes.iter_mut().zip(x) {
            // SAFETY: the product is finite and at most 127 in size, but for its last bit.
            *code = unsafe { (x * inverse).round_ties_even().to_int_unchecked::<i32>() } as i8;
        }
        for (half, codes) in halves.iter_mut().zip(codes.chunks_exact(SHARE / 2)) {
            let mut total = 0;
            for code in codes {
                total += i32::from(*code);
            }
            *half = total;
        }
        *sum = halves[0] + halves[1];
    }
}
