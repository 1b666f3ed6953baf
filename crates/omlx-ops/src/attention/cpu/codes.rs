//! Keys and values stored as codes, attended to without leaving rotated space.
//!
//! With keys `a·R⁻¹c` and values `b·R'⁻¹c'`: a product with a key is `a·⟨Rq, c⟩`, and a sum of weighted values is
//! `R'⁻¹ Σ (w·b)·c'`. So queries are rotated once, levels `c` are looked up on their way into the panels that plain pools fill too, `a`
//! multiplies the finished product and `b` the weight, and a result is turned back once. Every sum has the order of plain
//! pools, whatever chunk, batch or task a query comes in.

use std::ops::{Deref, Range};

use candle_core::Storage;
use half::f16;

use super::outer::{Panels, Rows, outer};
use super::pack::{Packed, STEP, TILE, Visible};
use super::pools::{Pools, Unit};
use super::tile::{State, seen_panels, weights};
use super::{Job, Task, Tile, Tiles};
use crate::coded::Coding;
use crate::hadamard::Rotation;
use crate::host;
use crate::simd::codes::{Lookup, Lut, lane};
use crate::simd::sixteen::Sixteen;
use crate::simd::{Isa, LANES, Simd, for_isa};
use crate::threads;

/// Numbers that are decoded from bytes at a time.
const BYTES: usize = 32;
/// Values that are decoded at a time for few queries, so that they stay in the nearest cache.
const VALUES: usize = 16;
/// Numbers of keys that are decoded at a time for few queries, for the same reason.
const KEYS: usize = 4 << 10;

/// Pools of keys and values.
pub(super) struct Codes<'a> {
    k: Side<'a>,
    v: Side<'a>,
}

/// One of the two.
struct Side<'a> {
    bytes: &'a [u8],
    scales: &'a [f16],
    coding: &'a Coding,
    lut: Lut,
    /// Bytes of a vector.
    width: usize,
}

impl<'a> Codes<'a> {
    pub(super) fn new(k: ((&'a [u8], &'a [f16]), &'a Coding), v: ((&'a [u8], &'a [f16]), &'a Coding)) -> Self {
        let side = |((bytes, scales), coding): ((&'a [u8], &'a [f16]), &'a Coding)| Side {
            bytes,
            scales,
            coding,
            lut: Lut::of(&coding.book),
            width: coding.code_bytes(),
        };
        Self { k: side(k), v: side(v) }
    }
}

/// Queries as keys are rotated.
pub(super) fn rotated<S: Deref<Target = Storage>>(isa: Isa, q: &host::Rows<S>, rotation: &Rotation) -> Vec<f32> {
    let (x, stride, width) = (q.as_slice(), q.stride(), q.width);
    let mut out = vec![0f32; q.rows * width];
    threads::for_rows(&mut out, width, 16 << 10, |row, out| {
        out.copy_from_slice(&x[row * stride..][..width]);
        for_isa!(isa, forward::<>(rotation: &Rotation, out: &mut [f32]));
    });
    out
}

#[inline(always)]
unsafe fn forward<S: Simd>(rotation: &Rotation, vectors: &mut [f32]) {
    for x in vectors.chunks_exact_mut(rotation.dim()) {
        rotation.forward(x);
    }
}

#[inline(always)]
unsafe fn inverse<S: Simd>(rotation: &Rotation, x: &mut [f32]) {
    rotation.inverse(x);
}

impl Pools for Codes<'_> {
    const SPAN: Option<usize> = Some(8 * TILE);
    const UNIT: Unit = Unit::Vector;

    fn check(&self, tile: &Tile) {
        let last = *tile.places.iter().max().expect("a tile has keys");
        for side in [&self.k, &self.v] {
            let whole = (last + 1) * side.width <= side.bytes.len() && last < side.scales.len();
            assert!(whole, "a slot beyond the pool");
        }
    }

    #[inline(always)]
    unsafe fn pack<S: Simd + Sixteen + Lookup>(
        &self,
        tile: &Tile,
        ahead: &[usize; TILE],
        (packed, state): (&mut Packed, &mut State),
    ) {
        self.scales(&tile.places, state);
        let dim = self.k.coding.dim();
        packed.codes.resize(LANES * dim.next_multiple_of(BYTES), 0);
        // SAFETY: passed on.
        unsafe {
            for panel in 0..TILE / LANES {
                let (from, to) = (panel * LANES, (panel + 1) * LANES);
                if tile.seen.iter().any(|range| !range.is_empty() && range.start < to && range.end > from) {
                    self.soon::<S>(&ahead[from..to]);
                    let out = &mut packed.k[panel * dim * LANES..][..dim * LANES];
                    self.k.keys::<S>(&tile.places[from..to], &mut packed.codes, out);
                }
            }
            for key in tile.seen.iter().flat_map(Range::clone) {
                let out = packed.v.as_mut_ptr().add(key * LANES);
                self.v.values::<S>(tile.places[key], &mut packed.codes, out, STEP);
            }
        }
    }

    #[inline(always)]
    unsafe fn few<S: Simd + Sixteen + Lookup>(
        &self,
        job: &Job<'_>,
        task: &Task,
        (tile, ahead): Tiles<'_>,
        (packed, state): (&mut Packed, &mut State),
    ) {
        self.scales(&tile.places, state);
        let (dim, count) = (self.k.coding.dim(), task.heads.len());
        packed.codes.resize(LANES * dim.next_multiple_of(BYTES), 0);
        let visible = state.visible[0].clone();
        let step = dim * LANES;
        // SAFETY: passed on; a query has as many numbers as a key.
        unsafe {
            let seen = seen_panels(std::slice::from_ref(&visible));
            // several panels together keep the multipliers busy where a query's chain alone would not
            let together = (KEYS / step).max(1);
            let mut at = seen.start;
            while at < seen.end {
                let panels = at..(at + together).min(seen.end);
                for panel in panels.clone() {
                    let first = panel * LANES;
                    self.soon::<S>(&ahead[first..first + LANES]);
                    let out = &mut packed.k[(panel - at) * step..][..step];
                    self.k.keys::<S>(&tile.places[first..first + LANES], &mut packed.codes, out);
                }
                let mut rows = Rows::new();
                for query in 0..count {
                    let scores = &mut state.scores[query * TILE + at * LANES..][..panels.len() * LANES];
                    scores.fill(0.0);
                    rows.push(job.query(task.tokens.start, task.heads.start + query).as_ptr(), scores.as_mut_ptr());
                }
                outer(S::ISA, &rows, Panels { b: packed.k.as_ptr(), step, count: panels.len(), len: dim });
                at = panels.end;
            }
            for query in 0..count {
                weights::<S>(job, task, state, [0, query]);
            }
            self.few_values::<S>(count, (tile, &visible), (packed, state));
        }
    }

    fn finish(&self, isa: Isa, acc: &[f32], sum: f32, out: &mut [f32]) {
        for (d, out) in out.iter_mut().enumerate() {
            *out = acc[d / LANES * LANES + lane(d % LANES)] / sum;
        }
        let rotation = &self.v.coding.rotation;
        for_isa!(isa, inverse::<>(rotation: &Rotation, out: &mut [f32]));
    }
}

impl Codes<'_> {
    /// The scalars of a tile's keys and values.
    #[inline(always)]
    fn scales(&self, places: &[usize; TILE], state: &mut State) {
        for (side, scales) in [&self.k, &self.v].into_iter().zip(&mut state.scales) {
            scales.resize(TILE, 0.0);
            for (scale, place) in scales.iter_mut().zip(places) {
                *scale = side.scales[*place].to_f32();
            }
        }
    }

    /// Weighted values onto the sums of a token's first `count` query heads.
    #[inline(always)]
    unsafe fn few_values<S: Sixteen + Simd + Lookup>(
        &self,
        count: usize,
        (tile, visible): (&Tile, &Visible),
        (packed, state): (&mut Packed, &mut State),
    ) {
        // a row of sixteen between two panels, for the reason that `STEP` has one
        const PANEL: usize = (VALUES + 1) * LANES;
        let width = state.width;
        for range in visible {
            for first in range.clone().step_by(VALUES) {
                let keys = first..(first + VALUES).min(range.end);
                // SAFETY: passed on; the panels of `VALUES` keys take less room than those of a tile.
                unsafe {
                    for key in keys.clone() {
                        let out = packed.v.as_mut_ptr().add((key - first) * LANES);
                        self.v.values::<S>(tile.places[key], &mut packed.codes, out, PANEL);
                    }
                    let mut rows = Rows::new();
                    for query in 0..count {
                        let weights = state.scores[query * TILE + first..].as_ptr();
                        rows.push(weights, state.acc[query * width..].as_mut_ptr());
                    }
                    let panels = Panels { b: packed.v.as_ptr(), step: PANEL, count: width / LANES, len: keys.len() };
                    outer(S::ISA, &rows, panels);
                }
            }
        }
    }

    /// Codes at `places` will be read.
    #[inline(always)]
    fn soon<S: Sixteen>(&self, places: &[usize]) {
        const LINE: usize = 64;
        for side in [&self.k, &self.v] {
            for place in places {
                let at = side.bytes.as_ptr().wrapping_add(place * side.width);
                for line in (0..side.width).step_by(LINE) {
                    // SAFETY: nothing is read.
                    unsafe { S::soon(at.wrapping_add(line)) }
                }
            }
        }
    }
}

impl Side<'_> {
    #[inline(always)]
    fn row(&self, place: usize) -> *const u8 {
        self.bytes.as_ptr().wrapping_add(place * self.width)
    }

    /// Sixteen keys to a panel: number after number, the keys side by side.
    ///
    /// # Safety
    /// The places lie inside the pool, the instruction set exists, and `room` has sixteen times the head rounded up to [`BYTES`].
    #[inline(always)]
    unsafe fn keys<S: Lookup>(&self, places: &[usize], room: &mut [u8], panel: &mut [f32]) {
        let (dim, bits) = (self.coding.dim(), self.coding.bits());
        let mut rows = [self.bytes.as_ptr(); LANES];
        for (row, place) in rows.iter_mut().zip(places) {
            *row = self.row(*place);
        }
        let panel = &mut panel[..dim * LANES];
        // SAFETY: passed on.
        unsafe {
            if bits == 4 && dim % 32 == 0 {
                for (at, out) in panel.chunks_exact_mut(32 * LANES).enumerate() {
                    S::turn_halves(&rows, at * 16, &self.lut, out.as_mut_ptr());
                }
                return;
            }
            let each = dim.next_multiple_of(BYTES);
            let room = &mut room[..LANES * each];
            for (row, out) in rows.iter_mut().zip(room.chunks_exact_mut(each)) {
                S::expand(*row, bits, dim, out.as_mut_ptr());
                *row = out.as_ptr();
            }
            for (at, out) in panel.chunks_mut(LANES * LANES).enumerate() {
                if out.len() == LANES * LANES {
                    S::turn_bytes(&rows, at * LANES, &self.lut, out.as_mut_ptr());
                } else {
                    let mut all = [0f32; LANES * LANES];
                    S::turn_bytes(&rows, at * LANES, &self.lut, all.as_mut_ptr());
                    out.copy_from_slice(&all[..out.len()]);
                }
            }
        }
    }

    /// One value to its rows of panels that are `step` numbers apart, lanes in the order of [`lane`].
    ///
    /// # Safety
    /// The place lies inside the pool, the instruction set exists, `room` has the head rounded up to [`BYTES`], and there is a
    /// row at `out` in each of as many panels as the head takes.
    #[inline(always)]
    unsafe fn values<S: Lookup>(&self, place: usize, room: &mut [u8], out: *mut f32, step: usize) {
        let (dim, bits) = (self.coding.dim(), self.coding.bits());
        let row = self.row(place);
        let room = &mut room[..dim.next_multiple_of(BYTES)];
        let mut spare = [0f32; LANES];
        // SAFETY: passed on.
        unsafe {
            let halves = bits == 4 && dim % 32 == 0;
            if !halves {
                S::expand(row, bits, dim, room.as_mut_ptr());
            }
            for at in (0..dim).step_by(32) {
                let first = out.add(at / LANES * step);
                let second = if at + LANES < dim { first.add(step) } else { spare.as_mut_ptr() };
                if halves {
                    S::spread_halves(row.add(at / 2), &self.lut, [first, second]);
                } else {
                    S::spread_bytes(room[at..].as_ptr(), &self.lut, [first, second]);
                }
            }
        }
    }
}
