//! The CPU version: of plain floats every output is one dot product, sixteen partial sums over the columns in order.
//!
//! Because that order is the same for one row of `x` and for many, a row's result does not depend on its company. Few rows read
//! the weights as they are stored, once; many rows widen a panel of weights to f32 first and reuse it from the cache. Packed weights are multiplied in `int8`.

use std::cell::Cell;

use half::{bf16, f16};

use candle_core::Tensor;

use super::acts::Acts;
use super::{Linear, Weight, int8, packed};
use crate::simd::{Isa, LANES, Simd, Tile, for_isa};
use crate::threads::{self, SharedMut};
use crate::{Result, host};

/// Rows of a weight that one task multiplies at least: a multiple of every tile height and of packed panels.
const PANEL: usize = 48;
/// Up to this many rows of `x`, weights are widened in registers.
const FEW: usize = 4;
/// Rows of `x` that are kept close while a panel is used.
const NEAR: usize = 64;

/// A register's worth of consecutive weights as f32, whatever the storage.
trait Source: Sync + Copy {
    /// The rows as they are, if they are f32 already.
    fn plain(&self) -> Option<&[f32]> {
        None
    }
    /// # Safety
    /// `row` and the columns from `col` on are inside the matrix; `col` is a multiple of the register's width.
    unsafe fn load<S: Simd>(&self, row: usize, col: usize) -> S::V;
    /// One weight, for columns beyond the last multiple of sixteen.
    fn one(&self, row: usize, col: usize) -> f32;
}

macro_rules! dense_source {
    ($name:ident, $float:ty, $load:ident, $one:expr) => {
        #[derive(Clone, Copy)]
        struct $name<'a> {
            w: &'a [$float],
            cols: usize,
        }
        impl Source for $name<'_> {
            #[inline(always)]
            unsafe fn load<S: Simd>(&self, row: usize, col: usize) -> S::V {
                // SAFETY: inside the matrix by the caller's promise.
                unsafe { S::$load(self.w.as_ptr().add(row * self.cols + col)) }
            }
            fn one(&self, row: usize, col: usize) -> f32 {
                $one(self.w[row * self.cols + col])
            }
        }
    };
}
dense_source!(Bf16, bf16, load_bf16, bf16::to_f32);
dense_source!(F16, f16, load_f16, f16::to_f32);

#[derive(Clone, Copy)]
struct F32<'a> {
    w: &'a [f32],
    cols: usize,
}
impl Source for F32<'_> {
    fn plain(&self) -> Option<&[f32]> {
        Some(self.w)
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(&self, row: usize, col: usize) -> S::V {
        // SAFETY: inside the matrix by the caller's promise.
        unsafe { S::load(self.w.as_ptr().add(row * self.cols + col)) }
    }
    fn one(&self, row: usize, col: usize) -> f32 {
        self.w[row * self.cols + col]
    }
}

pub(super) fn forward(linear: &Linear, x: &Tensor) -> Result<Tensor> {
    forward_with(Isa::best(), linear, x)
}

pub(super) fn forward_with(isa: Isa, linear: &Linear, x: &Tensor) -> Result<Tensor> {
    let rows = host::rows(x, "linear", "x")?;
    let (count, total) = (rows.rows, linear.rows);
    let mut out = vec![0f32; count * total];
    let bias = linear.bias.as_ref().map(|b| host::rows(b, "linear", "bias")).transpose()?;
    let job = Job {
        x: rows.as_slice(),
        stride: rows.stride(),
        count,
        cols: linear.cols,
        out: SharedMut::new(&mut out),
        total,
        bias: bias.as_ref().map(|b| b.as_slice()),
    };
    // Tasks of all parts go to the pool together: one hand-out per layer, not one per part.
    let height = task_height(total, count);
    let starts = parts_starts(linear);
    let tasks: Vec<(usize, usize)> = linear
        .parts
        .iter()
        .enumerate()
        .flat_map(|(part, w)| (0..w.dims().0.div_ceil(height)).map(move |task| (part, task * height)))
        .collect();
    let guards: Vec<_> = linear.parts.iter().map(guard).collect();
    let any_packed = linear.parts.iter().any(|w| matches!(w, Weight::Packed(_)));
    let acts = any_packed.then(|| Acts::new(isa, job.x, (count, job.stride, linear.cols)));
    let run = |task: usize| {
        let (part, from) = tasks[task];
        let to = (from + height).min(linear.parts[part].dims().0);
        let place = Place { from, to, column: starts[part] };
        match (&linear.parts[part], &guards[part]) {
            (Weight::Packed(w), _) => {
                let acts = acts.as_ref().expect("made where a part is packed");
                let job = int8::Job { acts, count, out: &job.out, total, bias: job.bias };
                job.panels(isa, w, from / packed::PANEL..to.div_ceil(packed::PANEL), place.column);
            }
            (Weight::Dense(w), Some(storage)) => {
                let (at, cols) = (w.layout().start_offset(), linear.cols);
                match host::Floats::of(storage, at, "linear") {
                    Ok(host::Floats::F32(w)) => job.part(isa, F32 { w, cols }, place),
                    Ok(host::Floats::F16(w)) => job.part(isa, F16 { w, cols }, place),
                    Ok(host::Floats::Bf16(w)) => job.part(isa, Bf16 { w, cols }, place),
                    Err(_) => unreachable!("`Linear::dense` checked the type"),
                }
            }
            (Weight::Dense(_), None) => unreachable!("dense parts have a guard"),
        }
    };
    threads::for_each(tasks.len(), run);
    drop(guards);
    host::tensor(out, (count, total))
}

fn guard(w: &Weight) -> Option<impl std::ops::Deref<Target = candle_core::Storage> + '_> {
    match w {
        Weight::Dense(w) => Some(w.storage_and_layout().0),
        Weight::Packed(_) => None,
    }
}

fn parts_starts(linear: &Linear) -> Vec<usize> {
    let starts = linear.parts.iter().scan(0, |at, w| {
        let start = *at;
        *at += w.dims().0;
        Some(start)
    });
    starts.collect()
}

/// Rows of the weight per task: about eight tasks a thread, whole panels.
fn task_height(total: usize, count: usize) -> usize {
    if count > FEW {
        return PANEL;
    }
    (total / (8 * threads::threads())).next_multiple_of(PANEL).max(PANEL)
}

/// Which rows of a part a task does, and the column of the output where the part begins.
#[derive(Clone, Copy)]
struct Place {
    from: usize,
    to: usize,
    column: usize,
}

/// What all tasks of one call share.
struct Job<'a> {
    x: &'a [f32],
    stride: usize,
    count: usize,
    cols: usize,
    out: SharedMut<f32>,
    total: usize,
    bias: Option<&'a [f32]>,
}

impl Job<'_> {
    fn part<W: Source>(&self, isa: Isa, w: W, place: Place) {
        let job = self;
        for_isa!(isa, part::<W: Source>(job: &Job<'_>, w: W, place: Place));
    }

    /// # Safety
    /// Each output is written by one task only.
    #[inline(always)]
    unsafe fn put(&self, row: usize, column: usize, value: f32) {
        let value = self.bias.map_or(value, |bias| value + bias[column]);
        // SAFETY: inside the buffer; the caller promises the rest.
        unsafe { self.out.write(row * self.total + column, value) }
    }
}

/// # Safety
/// The instruction set of `S` exists.
#[inline(always)]
unsafe fn part<S: Simd, W: Source>(job: &Job<'_>, w: W, place: Place) {
    // SAFETY: passed on; `place` lies inside the part.
    unsafe {
        if job.count <= FEW {
            few::<S, W>(job, w, place);
        } else if let Some(plain) = w.plain() {
            many::<S>(job, F32 { w: plain, cols: job.cols }, place, place.from);
        } else {
            // Taken out and put back rather than borrowed in a closure: a closure's body would be compiled without the
            // instruction set, and every intrinsic would become a call.
            thread_local!(static WIDE: Cell<Vec<f32>> = const { Cell::new(Vec::new()) });
            let mut wide = WIDE.take();
            let cols = job.cols;
            for from in (place.from..place.to).step_by(PANEL) {
                let to = (from + PANEL).min(place.to);
                widen::<S, W>(w, from..to, cols, &mut wide);
                many::<S>(job, F32 { w: &wide, cols }, Place { from, to, ..place }, 0);
            }
            WIDE.set(wide);
        }
    }
}

/// Rows `range` of the weight as f32.
#[inline(always)]
unsafe fn widen<S: Simd, W: Source>(w: W, range: std::ops::Range<usize>, cols: usize, wide: &mut Vec<f32>) {
    wide.resize(PANEL * cols, 0.0);
    let whole = cols / LANES * LANES;
    for (i, row) in range.enumerate() {
        let out = &mut wide[i * cols..][..cols];
        for col in (0..whole).step_by(S::WIDTH) {
            // SAFETY: the columns exist, in source and destination.
            unsafe { S::store(out[col..].as_mut_ptr(), w.load::<S>(row, col)) }
        }
        for (rest, out) in out[whole..].iter_mut().enumerate() {
            *out = w.one(row, whole + rest);
        }
    }
}

/// One to four rows of `x`: the weights are read once, as many rows of them at a time as leave registers free.
#[inline(always)]
unsafe fn few<S: Simd, W: Source>(job: &Job<'_>, w: W, place: Place) {
    // SAFETY: passed on.
    unsafe {
        match (S::TILE, job.count) {
            (Tile::Wide, 1) => sweep::<S, W, 1, 8>(job, w, place),
            (Tile::Wide, 2) => sweep::<S, W, 2, 4>(job, w, place),
            (Tile::Wide, 3) => sweep::<S, W, 3, 4>(job, w, place),
            (Tile::Wide, 4) => sweep::<S, W, 4, 4>(job, w, place),
            (Tile::Narrow, 1) => sweep::<S, W, 1, 4>(job, w, place),
            (Tile::Narrow, 2) => sweep::<S, W, 2, 2>(job, w, place),
            (Tile::Narrow, 3) => sweep::<S, W, 3, 1>(job, w, place),
            (Tile::Narrow, 4) => sweep::<S, W, 4, 1>(job, w, place),
            _ => {}
        }
    }
}

/// All of `place` against the first `M` rows of `x`.
#[inline(always)]
unsafe fn sweep<S: Simd, W: Source, const M: usize, const N: usize>(job: &Job<'_>, w: W, place: Place) {
    let mut n = place.from;
    // SAFETY: passed on.
    unsafe {
        while n + N <= place.to {
            tile::<S, W, M, N>(job, w, [0, n, n], place.column);
            n += N;
        }
        while n < place.to {
            tile::<S, W, M, 1>(job, w, [0, n, n], place.column);
            n += 1;
        }
    }
}

/// Many rows of `x` against f32 rows; `first` is the row of `w` that holds the weights of row `place.from`.
#[inline(always)]
unsafe fn many<S: Simd>(job: &Job<'_>, w: F32<'_>, place: Place, first: usize) {
    for near in (0..job.count).step_by(NEAR) {
        let rows = near..(near + NEAR).min(job.count);
        // SAFETY: passed on.
        unsafe {
            match S::TILE {
                Tile::Wide => strips::<S, F32<'_>, 4, 6>(job, w, place, first, rows),
                Tile::Narrow => strips::<S, F32<'_>, 3, 2>(job, w, place, first, rows),
            }
        }
    }
}

#[inline(always)]
unsafe fn strips<S: Simd, W: Source, const M: usize, const N: usize>(
    job: &Job<'_>,
    w: W,
    place: Place,
    first: usize,
    rows: std::ops::Range<usize>,
) {
    let mut n = place.from;
    while n < place.to {
        let whole = n + N <= place.to;
        let mut m = rows.start;
        while m < rows.end {
            let at = [m, n - place.from + first, n];
            let deep = m + M <= rows.end;
            // SAFETY: passed on.
            unsafe {
                match (deep, whole) {
                    (true, true) => tile::<S, W, M, N>(job, w, at, place.column),
                    (true, false) => tile::<S, W, M, 1>(job, w, at, place.column),
                    (false, true) => tile::<S, W, 1, N>(job, w, at, place.column),
                    (false, false) => tile::<S, W, 1, 1>(job, w, at, place.column),
                }
            }
            m += if deep { M } else { 1 };
        }
        n += if whole { N } else { 1 };
    }
}

/// `M` rows of x by `N` rows of w, all columns. `at` = [row of x, row of `w`, row of the part].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "three indices over registers; iterators would hide the tile")]
unsafe fn tile<S: Simd, W: Source, const M: usize, const N: usize>(job: &Job<'_>, w: W, at: [usize; 3], column: usize) {
    let [m, row, n] = at;
    let whole = job.cols / LANES * LANES;
    // SAFETY: all rows and columns exist, by the loops of the callers.
    unsafe {
        let mut sums = [[[S::splat(0.0); N]; M]; 2];
        let x: [*const f32; M] = std::array::from_fn(|i| job.x.as_ptr().add((m + i) * job.stride));
        let mut k = 0;
        while k < whole {
            // one part of the sixteen lanes after the other, so that x's registers are needed for one only
            for part in 0..S::PARTS {
                let k = k + part * S::WIDTH;
                let xs: [S::V; M] = std::array::from_fn(|i| S::load(x[i].add(k)));
                for j in 0..N {
                    let ws = w.load::<S>(row + j, k);
                    for i in 0..M {
                        sums[part][i][j] = S::fma(xs[i], ws, sums[part][i][j]);
                    }
                }
            }
            k += LANES;
        }
        for i in 0..M {
            for j in 0..N {
                let mut y = S::sum([sums[0][i][j], sums[1][i][j]]);
                for k in whole..job.cols {
                    y = (*x[i].add(k)).mul_add(w.one(row + j, k), y);
                }
                job.put(m + i, column + n + j, y);
            }
        }
    }
}
