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
    pub(super) codes: Vec<i8>,   // [M, K]
    pub(super) scales: Vec<f32>, // [M, K / 32]
    pub(super) sums: Sums,       // [M, K / 32]
    pub(super) halves: Sums,     // [M, K / 16], for weights in groups of 16
}

/// Of neighbours: the sum of their codes, and of the numbers that these stand for.
#[derive(Debug)]
pub(super) struct Sums {
    pub(super) codes: Vec<i32>,
    pub(super) numbers: Vec<f32>,
}

impl Sums {
    fn zeros(count: usize) -> Self {
        Self { codes: vec![0; count], numbers: vec![0.0; count] }
    }
}

impl Acts {
    /// Rounds `rows` rows of `cols` numbers, each `stride` behind the one before.
    pub(super) fn new(isa: Isa, x: &[f32], (rows, stride, cols): (usize, usize, usize)) -> Self {
        assert_eq!(cols % SHARE, 0, "packed rows are whole groups");
        let mut codes = vec![0i8; rows * cols];
        let mut scales = vec![0f32; rows * cols / SHARE];
        let (mut sums, mut halves) = (Sums::zeros(scales.len()), Sums::zeros(2 * scales.len()));
        let (out, out_scales) = (SharedMut::new(&mut codes), SharedMut::new(&mut scales));
        let (out_sums, out_numbers) = (SharedMut::new(&mut sums.codes), SharedMut::new(&mut sums.numbers));
        let (half_sums, half_numbers) = (SharedMut::new(&mut halves.codes), SharedMut::new(&mut halves.numbers));
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
                        numbers: out_numbers.slice(row * shares, shares),
                        half_sums: half_sums.slice(2 * row * shares, 2 * shares),
                        half_numbers: half_numbers.slice(2 * row * shares, 2 * shares),
                    }
                };
                for_isa!(isa, round::<>(x: &[f32], out: Row<'_>));
            }
        });
        Self { codes, scales, sums, halves }
    }
}

struct Row<'a> {
    codes: &'a mut [i8],
    scales: &'a mut [f32],
    sums: &'a mut [i32],
    numbers: &'a mut [f32],
    half_sums: &'a mut [i32],
    half_numbers: &'a mut [f32],
}

/// Plain loops that the compiler turns into vectors of the set; nothing here depends on the order of rounding.
#[inline(always)]
unsafe fn round<S: Simd>(x: &[f32], out: Row<'_>) {
    let Row { codes, scales, sums, numbers, half_sums, half_numbers } = out;
    let shares = x.chunks_exact(SHARE).zip(codes.chunks_exact_mut(SHARE));
    for (share, (x, codes)) in shares.enumerate() {
        // As integers, so that a NaN is the largest of all and is not lost.
        let mut largest = 0u32;
        for x in x {
            largest = largest.max(x.to_bits() & 0x7fff_ffff);
        }
        let largest = f32::from_bits(largest);
        if !largest.is_finite() {
            // The result must show it.
            scales[share] = f32::NAN;
            numbers[share] = f32::NAN;
            half_numbers[2 * share..][..2].fill(f32::NAN);
            continue;
        }
        if largest < TINY {
            continue;
        }
        let scale = largest / 127.0;
        scales[share] = scale;
        let inverse = 127.0 / largest;
        for (code, x) in codes.iter_mut().zip(x) {
            // SAFETY: the product is finite and at most 127 in size, but for its last bit.
            *code = unsafe { (x * inverse).round_ties_even().to_int_unchecked::<i32>() } as i8;
        }
        for (half, codes) in codes.chunks_exact(SHARE / 2).enumerate() {
            let mut total = 0;
            for code in codes {
                total += i32::from(*code);
            }
            half_sums[2 * share + half] = total;
            half_numbers[2 * share + half] = scale * total as f32;
        }
        sums[share] = half_sums[2 * share] + half_sums[2 * share + 1];
        numbers[share] = scale * sums[share] as f32;
    }
}
