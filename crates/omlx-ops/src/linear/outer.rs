//! Plain floats times `x` on the CPU: sixteen outputs at a time, one chain of multiply-adds each.
//!
//! For output `n` and each block of 256 columns: `s = 0`, then `s = fma(x[k], w[n, k], s)` for its columns in order; the output
//! is the sum of the blocks in order, then the bias is added. No kernel does it in another order, so a row's result is the same
//! in any company and with any instruction set. Blocks keep the chains short, which keeps the error of long rows small.

use std::ops::Range;

use half::{bf16, f16};

use super::dense::{Dense, Float, Number, PANEL};
use crate::simd::sixteen::Sixteen;
use crate::simd::{Isa, for_isa};
use crate::threads::SharedMut;

/// Columns of a chain.
const BLOCK: usize = 256;
/// Rows of `x` that a tile takes at most.
pub(super) const DEEP: usize = 6;
/// Bytes of weights that stay close while several tiles' rows go over them.
const NEAR: usize = 48 << 10;
/// How far ahead weights are asked for where they pass once, in bytes.
const AHEAD: usize = 1024;

/// What a task does: panels of one weight, whose first output is `column`, against rows of x.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) panels: Range<usize>,
    pub(super) rows: Range<usize>,
    pub(super) column: usize,
}

/// One call's inputs and where its outputs go.
pub(super) struct Job<'a> {
    /// Row `i` starts at `i * stride` and has as many numbers as the weight has columns.
    pub(super) x: &'a [f32],
    pub(super) stride: usize,
    pub(super) out: &'a SharedMut<f32>,
    /// Width of the output.
    pub(super) total: usize,
    /// Of all outputs.
    pub(super) bias: Option<&'a [f32]>,
}

impl Job<'_> {
    /// Computes the outputs of `place`, every one of them. No other task may write them.
    pub(super) fn run(&self, isa: Isa, w: &Dense, place: &Place) {
        let ((rows, cols), end) = (w.dims(), place.rows.end);
        assert!(
            place.panels.end <= rows.div_ceil(PANEL) && place.column + rows <= self.total,
            "the weight has the panels"
        );
        assert!(place.rows.is_empty() || (end - 1) * self.stride + cols <= self.x.len(), "x has the rows");
        assert!(end * self.total <= self.out.len(), "the output has the rows");
        assert!(self.bias.is_none_or(|bias| bias.len() >= self.total), "every output has a bias");
        match w.float() {
            Float::F32 => self.of::<f32>(isa, w, place),
            Float::F16 => self.of::<f16>(isa, w, place),
            Float::Bf16 => self.of::<bf16>(isa, w, place),
        }
    }

    fn of<T: Number>(&self, isa: Isa, w: &Dense, place: &Place) {
        let job = self;
        for_isa!(isa, panels::<T: Number>(job: &Job<'_>, w: &Dense, place: &Place));
    }
}

/// # Safety
/// The instruction set of `S` exists, `T` is the weight's type, and all that `place` names exists.
#[inline(always)]
unsafe fn panels<S: Sixteen, T: Number>(job: &Job<'_>, w: &Dense, place: &Place) {
    let Place { panels, rows, .. } = place;
    let cols = w.dims().1;
    // Groups of rows of almost one size: eight rows are four and four, not six and two.
    let groups = rows.len().div_ceil(DEEP).max(1);
    // One group reads the weights once, from end to end. Several go over some panels while these are near.
    let close = NEAR / (cols * PANEL * size_of::<T>()).max(1);
    let step = match (groups, S::ROOMY) {
        (1, _) => panels.len().max(1),
        (_, true) => close.next_multiple_of(4).clamp(4, 64),
        (_, false) => close.clamp(1, 64),
    };
    for from in panels.clone().step_by(step) {
        let near = from..(from + step).min(panels.end);
        for group in 0..groups {
            let first = rows.start + rows.len() * group / groups;
            let count = rows.start + rows.len() * (group + 1) / groups - first;
            let ahead = Ahead::new(w.panels::<T>(), cols, &near, (group, groups));
            let (at, near) = ([first, place.column], near.clone());
            // SAFETY: passed on.
            unsafe {
                match (count, S::ROOMY) {
                    (1, _) => strip::<S, T, 1, 4>(job, w, near, at, ahead),
                    (2, true) => strip::<S, T, 2, 4>(job, w, near, at, ahead),
                    (3, true) => strip::<S, T, 3, 4>(job, w, near, at, ahead),
                    (4, true) => strip::<S, T, 4, 4>(job, w, near, at, ahead),
                    (5, true) => strip::<S, T, 5, 4>(job, w, near, at, ahead),
                    (6, true) => strip::<S, T, 6, 4>(job, w, near, at, ahead),
                    (2, false) => strip::<S, T, 2, 2>(job, w, near, at, ahead),
                    (3, false) => strip::<S, T, 3, 1>(job, w, near, at, ahead),
                    (4, false) => strip::<S, T, 4, 1>(job, w, near, at, ahead),
                    (5, false) => strip::<S, T, 5, 1>(job, w, near, at, ahead),
                    (6, false) => strip::<S, T, 6, 1>(job, w, near, at, ahead),
                    _ => {}
                }
            }
        }
    }
}

/// Which weights are asked for while others are worked on.
#[derive(Clone, Copy)]
struct Ahead {
    /// For the first column of the matrix; may point nowhere.
    base: *const u8,
    /// Bytes further for every column of a panel.
    step: usize,
}

impl Ahead {
    /// One group of rows looks a little ahead. Of several each fetches its share of the panels that follow `near`, so that
    /// memory works all the time and not for the first group only.
    #[inline(always)]
    fn new<T>(w: *const T, cols: usize, near: &Range<usize>, (group, groups): (usize, usize)) -> Self {
        let column = PANEL * size_of::<T>();
        let base = w.cast::<u8>();
        if groups == 1 {
            return Self { base: base.wrapping_add(AHEAD), step: column };
        }
        let step = column.div_ceil(groups);
        let next = base.wrapping_add(near.end * cols * column);
        let share = next.wrapping_add(group * near.len() * cols * step);
        Self { base: share.wrapping_sub(near.start * cols * step), step }
    }
}

/// `M` rows of x against all of `panels`, `P` of them at a time. `at` = [row of x, output of the weight's first row].
#[inline(always)]
unsafe fn strip<S: Sixteen, T: Number, const M: usize, const P: usize>(
    job: &Job<'_>,
    w: &Dense,
    panels: Range<usize>,
    [row, column]: [usize; 2],
    ahead: Ahead,
) {
    let mut panel = panels.start;
    // SAFETY: passed on.
    unsafe {
        while panel + P <= panels.end {
            tile::<S, T, M, P>(job, w, [row, panel, column], ahead);
            panel += P;
        }
        if P > 2 && panel + 2 <= panels.end {
            tile::<S, T, M, 2>(job, w, [row, panel, column], ahead);
            panel += 2;
        }
        if P > 1 && panel < panels.end {
            tile::<S, T, M, 1>(job, w, [row, panel, column], ahead);
        }
    }
}

/// `M` rows of x by `P` panels. `at` = [row of x, panel, output of the weight's first row].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "indices over registers; iterators would hide the tile")]
unsafe fn tile<S: Sixteen, T: Number, const M: usize, const P: usize>(
    job: &Job<'_>,
    w: &Dense,
    [row, panel, column]: [usize; 3],
    ahead: Ahead,
) {
    let cols = w.dims().1;
    // SAFETY: the panels and the rows exist, all of whose columns are read; looking ahead goes where it likes.
    unsafe {
        let from = w.panels::<T>().add(panel * cols * PANEL);
        let soon = ahead.base.wrapping_add(panel * cols * ahead.step);
        // Pointers of their own, so that no addresses are computed between the multiplications.
        let mut x = [job.x.as_ptr().add(row * job.stride); M];
        for i in 1..M {
            x[i] = x[i - 1].add(job.stride);
        }
        let mut y = [[S::zero(); P]; M];
        let mut block = 0;
        while block < cols {
            let mut sums = [[S::zero(); P]; M];
            let to = (block + BLOCK).min(cols);
            let mut k = block;
            while k + 2 <= to {
                for p in 0..P {
                    S::soon(soon.wrapping_add((p * cols + k) * ahead.step));
                }
                one::<S, T, M, P>(from.add(k * PANEL), cols, &x, k, &mut sums);
                one::<S, T, M, P>(from.add((k + 1) * PANEL), cols, &x, k + 1, &mut sums);
                k += 2;
            }
            if k < to {
                one::<S, T, M, P>(from.add(k * PANEL), cols, &x, k, &mut sums);
            }
            for i in 0..M {
                for p in 0..P {
                    y[i][p] = if block == 0 { sums[i][p] } else { S::add(y[i][p], sums[i][p]) };
                }
            }
            block += BLOCK;
        }
        for i in 0..M {
            for p in 0..P {
                put::<S>(job, w, [row + i, panel + p, column], y[i][p]);
            }
        }
    }
}

/// Column `k` of x by a column of `P` panels, the first at `w`.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "as in `tile`")]
unsafe fn one<S: Sixteen, T: Number, const M: usize, const P: usize>(
    w: *const T,
    cols: usize,
    x: &[*const f32; M],
    k: usize,
    sums: &mut [[S::V; P]; M],
) {
    for p in 0..P {
        // SAFETY: passed on.
        unsafe {
            let ws = T::load::<S>(w.add(p * cols * PANEL));
            for i in 0..M {
                sums[i][p] = S::fma(S::all(x[i].add(k)), ws, sums[i][p]);
            }
        }
    }
}

/// Sixteen outputs of one row of x, or as many as the weight has.
#[inline(always)]
unsafe fn put<S: Sixteen>(job: &Job<'_>, w: &Dense, [row, panel, column]: [usize; 3], y: S::V) {
    let (first, count) = (column + panel * PANEL, w.dims().0 - panel * PANEL);
    // SAFETY: `run` checked the sizes; these outputs belong to this task alone.
    unsafe {
        let out = job.out.at(row * job.total + first);
        if count >= PANEL {
            match job.bias {
                Some(bias) => S::store(out, S::add(y, S::f32(bias.as_ptr().add(first)))),
                None => S::store(out, y),
            }
            return;
        }
        let mut all = [0f32; PANEL];
        S::store(all.as_mut_ptr(), y);
        for (i, y) in all.iter().enumerate().take(count) {
            out.add(i).write(job.bias.map_or(*y, |bias| y + bias[first + i]));
        }
    }
}

#[cfg(test)]
mod tests;
