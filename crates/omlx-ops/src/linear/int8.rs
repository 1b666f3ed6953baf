//! Packed weights times rounded activations on the CPU: sixteen outputs at a time, sums of integers, one scale per 32 columns.
//!
//! For output `n` and each span of 32 columns (16 where the weight's groups are that small), in order:
//! `y = fma(Σ (code - zero) · x, scale · x_scale, y)`, and where the format has biases `y = fma(bias, x_scale · Σ x, y)`. The
//! sums are exact, so a row's result is the same in any company and with any instruction set.

use super::acts::{Acts, SHARE, Sums};
use super::outer::Place;
use super::packed::{Numbers, PANEL, Packed};
use crate::simd::dots::{Dots, QUAD, SPAN};
use crate::simd::{Isa, LANES, Simd, for_isa};
use crate::threads::SharedMut;

const _: () = assert!(PANEL == LANES && SPAN == SHARE);

/// Bytes of rounded activations that stay close while a panel of weights passes.
const NEAR: usize = 96 << 10;

/// One call's inputs and where its outputs go.
pub(super) struct Job<'a> {
    pub(super) acts: &'a Acts,
    pub(super) out: &'a SharedMut<f32>,
    /// Width of the output.
    pub(super) total: usize,
    /// Of all outputs.
    pub(super) bias: Option<&'a [f32]>,
}

impl Job<'_> {
    /// The outputs of `place`. Those of different panels or rows may be written at the same time.
    pub(super) fn run(&self, isa: Isa, w: &Packed, place: &Place) {
        let job = self;
        assert!(place.rows.end * w.cols() <= self.acts.codes.len(), "x has the rows");
        match w.width() {
            4 if w.is_fp4() => for_isa!(isa, float4::<>(job: &Job<'_>, w: &Packed, place: &Place)),
            4 => for_isa!(isa, four::<>(job: &Job<'_>, w: &Packed, place: &Place)),
            6 => for_isa!(isa, six::<>(job: &Job<'_>, w: &Packed, place: &Place)),
            _ => for_isa!(isa, eight::<>(job: &Job<'_>, w: &Packed, place: &Place)),
        }
    }
}

macro_rules! width {
    ($name:ident, $bits:literal, $fp4:literal) => {
        #[inline(always)]
        unsafe fn $name<S: Dots>(job: &Job<'_>, w: &Packed, place: &Place) {
            // SAFETY: passed on.
            unsafe { blocks::<S, $bits, $fp4>(job, w, place) }
        }
    };
}
width!(four, 4, false);
// As wide as six bits once they are looked up.
width!(float4, 6, true);
width!(six, 6, false);
width!(eight, 8, false);

/// # Safety
/// The instruction set of `S` exists, `w` has these panels, and x these rows.
#[inline(always)]
unsafe fn blocks<S: Dots, const BITS: u8, const FP4: bool>(job: &Job<'_>, w: &Packed, place: &Place) {
    let Place { panels, rows, column } = place.clone();
    let near = (NEAR / w.cols().max(1)).next_multiple_of(4);
    let steps = Steps::new(job.acts, w);
    let mut from = rows.start;
    while from < rows.end {
        let to = (from + near).min(rows.end);
        for panel in panels.clone() {
            let mut m = from;
            // SAFETY: passed on.
            unsafe {
                while m + 4 <= to {
                    tile::<S, BITS, FP4, 4>(job, w, &steps, [m, panel, column]);
                    m += 4;
                }
                match to - m {
                    3 => tile::<S, BITS, FP4, 3>(job, w, &steps, [m, panel, column]),
                    2 => tile::<S, BITS, FP4, 2>(job, w, &steps, [m, panel, column]),
                    1 => tile::<S, BITS, FP4, 1>(job, w, &steps, [m, panel, column]),
                    _ => {}
                }
            }
        }
        from = to;
    }
}

/// How a row is gone through: as many columns at a time as share one scale of `w` and one of `x`.
struct Steps<'a> {
    count: usize,
    /// Eights of columns in a step: 2 or 4. Not a constant, so that the loop over them stays one: unrolled, its loads would all
    /// be moved to the front and out of the registers.
    eights: usize,
    /// From a step to the weight's group, and to the scale of `x`.
    group_shift: u32,
    share_shift: u32,
    /// Of `x`, `[M, count]`.
    sums: &'a Sums,
}

impl<'a> Steps<'a> {
    fn new(acts: &'a Acts, w: &Packed) -> Self {
        let step = w.group.min(SPAN);
        Self {
            count: w.cols() / step,
            eights: step / (2 * QUAD),
            group_shift: w.shift() - step.trailing_zeros(),
            share_shift: u32::from(step < SHARE),
            sums: if step < SHARE { &acts.halves } else { &acts.sums },
        }
    }
}

/// `M` rows of x by one panel. `at` = [row of x, panel, output of the weight's first row].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "indices over registers; iterators would hide the tile")]
unsafe fn tile<S: Dots, const BITS: u8, const FP4: bool, const M: usize>(
    job: &Job<'_>,
    w: &Packed,
    steps: &Steps<'_>,
    [m, panel, column]: [usize; 3],
) {
    let cols = w.cols();
    // SAFETY: the panel and the rows exist, all of whose columns are read.
    unsafe {
        let mut codes = w.panel(panel);
        let mut x = job.acts.codes.as_ptr().add(m * cols);
        let mut y = [[S::splat(0.0); 2]; M];
        for step in 0..steps.count {
            let mut sums = [[S::zero(); 2]; M];
            if BITS == 8 {
                for _ in 0..2 * steps.eights {
                    for part in 0..S::PARTS {
                        let w = S::bytes(codes.add(part * S::WIDTH * QUAD));
                        for i in 0..M {
                            sums[i][part] = S::dot_one(sums[i][part], w, S::quad(x.add(i * cols)));
                        }
                    }
                    codes = codes.add(LANES * QUAD);
                    x = x.add(QUAD);
                }
                fold::<S, BITS, M>(job.acts, w, steps, [m, panel, step], &sums, &mut y);
                continue;
            }
            for _ in 0..steps.eights {
                // eight columns of sixteen rows
                let mut ws = [[S::quad(x); 2]; 2];
                for part in 0..S::PARTS {
                    let at = codes.add(part * S::WIDTH * QUAD);
                    ws[part] = match BITS {
                        _ if FP4 => S::fp4(S::bytes(at)),
                        4 => S::nibbles(S::bytes(at)),
                        _ => [S::bytes(at), S::bytes(at.add(LANES * QUAD))],
                    };
                }
                codes = codes.add(if BITS == 4 || FP4 { LANES * QUAD } else { 2 * LANES * QUAD });
                for i in 0..M {
                    let eight = [S::quad(x.add(i * cols)), S::quad(x.add(i * cols + QUAD))];
                    for part in 0..S::PARTS {
                        sums[i][part] = S::dot::<BITS>(sums[i][part], ws[part], eight);
                    }
                }
                x = x.add(2 * QUAD);
            }
            fold::<S, BITS, M>(job.acts, w, steps, [m, panel, step], &sums, &mut y);
        }
        for i in 0..M {
            put::<S>(job, w, [m + i, panel, column], y[i]);
        }
    }
}

/// Sums of integers onto the outputs. `at` = [row of x, panel, step].
#[inline(always)]
unsafe fn fold<S: Dots, const BITS: u8, const M: usize>(
    acts: &Acts,
    w: &Packed,
    steps: &Steps<'_>,
    [m, panel, step]: [usize; 3],
    sums: &[[S::Sums; 2]; M],
    y: &mut [[S::V; 2]; M],
) {
    let at = (panel * w.groups() + (step >> steps.group_shift)) * LANES;
    let (share, shares) = (step >> steps.share_shift, w.cols() / SHARE);
    // SAFETY: all indices are below the sizes that `Packed` and `Acts` were made with.
    unsafe {
        let scales = load::<S>(&w.scales, at);
        let x_scales = acts.scales.as_ptr().add(m * shares + share);
        let x_codes = steps.sums.codes.as_ptr().add(m * steps.count + step);
        let Some(biases) = &w.biases else {
            let off = S::off::<BITS>() - w.zero;
            for i in 0..M {
                let (x_scale, plus) = (S::splat(*x_scales.add(i * shares)), off * *x_codes.add(i * steps.count));
                for part in 0..S::PARTS {
                    let scale = S::mul(scales[part], x_scale);
                    y[i][part] = S::fma(S::total::<BITS>(sums[i][part], plus), scale, y[i][part]);
                }
            }
            return;
        };
        let biases = load::<S>(biases, at);
        let x_numbers = steps.sums.numbers.as_ptr().add(m * steps.count + step);
        for i in 0..M {
            let (x_scale, x_number) = (S::splat(*x_scales.add(i * shares)), S::splat(*x_numbers.add(i * steps.count)));
            // Mostly a constant 0.
            let plus = match S::off::<BITS>() {
                0 => 0,
                off => off * *x_codes.add(i * steps.count),
            };
            for part in 0..S::PARTS {
                let scale = S::mul(scales[part], x_scale);
                y[i][part] = S::fma(S::total::<BITS>(sums[i][part], plus), scale, y[i][part]);
                y[i][part] = S::fma(biases[part], x_number, y[i][part]);
            }
        }
    }
}

/// Sixteen numbers.
#[inline(always)]
unsafe fn load<S: Simd>(numbers: &Numbers, at: usize) -> [S::V; 2] {
    // SAFETY: the set exists.
    let mut all = unsafe { [S::splat(0.0); 2] };
    for (part, v) in all.iter_mut().enumerate().take(S::PARTS) {
        let at = at + part * S::WIDTH;
        // SAFETY: in bounds, says the caller.
        *v = unsafe {
            match numbers {
                Numbers::F32(n) => S::load(n.as_ptr().add(at)),
                Numbers::F16(n) => S::load_f16(n.as_ptr().add(at)),
            }
        };
    }
    all
}

/// Sixteen outputs of one row of x, or as many as the weight has.
#[inline(always)]
unsafe fn put<S: Simd>(job: &Job<'_>, w: &Packed, [row, panel, column]: [usize; 3], y: [S::V; 2]) {
    let mut all = [0f32; LANES];
    for (part, y) in y.into_iter().enumerate().take(S::PARTS) {
        // SAFETY: the parts make up sixteen lanes.
        unsafe { S::store(all.as_mut_ptr().add(part * S::WIDTH), y) }
    }
    let (first, count) = (column + panel * LANES, (w.rows() - panel * LANES).min(LANES));
    if let Some(bias) = job.bias {
        for (y, bias) in all[..count].iter_mut().zip(&bias[first..]) {
            *y += bias;
        }
    }
    let at = row * job.total + first;
    assert!(at + count <= job.out.len());
    // SAFETY: in bounds by the assertion; these outputs belong to this panel alone.
    unsafe { job.out.at(at).copy_from_nonoverlapping(all.as_ptr(), count) }
}

#[cfg(test)]
mod tests;
