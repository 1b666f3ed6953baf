//! Keys and values of a tile as f32 panels, laid out once for all queries that see them.
//!
//! Keys are turned: a panel holds sixteen of them side by side, number after number of the head. A panel of values holds sixteen
//! numbers of the head side by side, key after key. Both are what [`outer`](super::outer) multiplies.

use std::ops::Range;

use half::{bf16, f16};

use crate::simd::sixteen::Sixteen;
use crate::simd::{LANES, Simd};

/// Keys per tile, cut at multiples of it.
pub(super) const TILE: usize = 64;
/// Numbers from one panel of values to the next. One row stays empty: a multiple of a page would put all panels' rows of a key
/// into the same few lines of the cache.
pub(super) const STEP: usize = (TILE + 1) * LANES;

/// A type that pools are made of.
pub(super) trait Element: Copy + Sync {
    /// # Safety
    /// A register's worth of elements is readable and the set of `S` exists.
    unsafe fn load<S: Simd>(at: *const Self) -> S::V;
    fn to_f32(self) -> f32;
}

macro_rules! element {
    ($t:ty, $load:ident, $to_f32:expr) => {
        impl Element for $t {
            #[inline(always)]
            unsafe fn load<S: Simd>(at: *const Self) -> S::V {
                // SAFETY: passed on.
                unsafe { S::$load(at) }
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $to_f32(self)
            }
        }
    };
}
element!(f32, load, |x| x);
element!(f16, load_f16, f16::to_f32);
element!(bf16, load_bf16, bf16::to_f32);

/// The keys of a tile that somebody sees: of those kept from the start, and of the window. Either may be empty.
pub(super) type Visible = [Range<usize>; 2];

/// Keys and values of one key head: those of key `i` of the tile begin at `places[i]`, which exists also where nobody sees it.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a, E> {
    pub(super) k: &'a [E],
    pub(super) v: &'a [E],
    pub(super) places: &'a [usize; TILE],
    pub(super) dim: usize,
}

impl<E: Element> Keys<'_, E> {
    /// Panics unless every key lies inside the pools.
    pub(super) fn check(&self) {
        let last = self.places.iter().max().expect("a tile has keys");
        assert!(last + self.dim <= self.k.len() && last + self.dim <= self.v.len(), "a slot beyond the pool");
    }
}

/// A tile's panels.
#[derive(Default)]
pub(super) struct Packed {
    pub(super) k: Vec<f32>, // [TILE / 16, D, 16]
    pub(super) v: Vec<f32>, // [D / 16, TILE + 1, 16], D rounded up
    /// Codes, a byte each, on their way to panels.
    pub(super) codes: Vec<u8>,
}

impl Packed {
    pub(super) fn resize(&mut self, dim: usize) {
        self.k.resize(TILE * dim, 0.0);
        self.v.resize(dim.div_ceil(LANES) * STEP, 0.0);
    }
}

/// Fills the panels: of keys those in which somebody sees one, of values the rows of those that are seen. Asks for those at
/// `next`, so that a tile need not wait for memory line by line.
///
/// # Safety
/// The instruction set of `S` exists, `keys.check()` holds, and the panels have the size of the head.
#[inline(always)]
pub(super) unsafe fn pack<S: Simd + Sixteen, E: Element>(
    keys: &Keys<'_, E>,
    seen: &Visible,
    next: &[usize; TILE],
    room: &mut Packed,
) {
    let step = keys.dim * LANES;
    for panel in 0..TILE / LANES {
        let (from, to) = (panel * LANES, (panel + 1) * LANES);
        if seen.iter().any(|range| !range.is_empty() && range.start < to && range.end > from) {
            soon::<S, E>(keys, &next[from..to]);
            for part in 0..S::PARTS {
                // SAFETY: passed on.
                unsafe { turn::<S, E>(keys, from + part * S::WIDTH, &mut room.k[panel * step..][..step]) }
            }
        }
    }
    for key in seen.iter().flat_map(Range::clone) {
        // SAFETY: passed on.
        unsafe { values::<S, E>(keys, key, &mut room.v) }
    }
}

/// Keys and values at `places` will be read.
#[inline(always)]
pub(super) fn soon<S: Sixteen, E: Element>(keys: &Keys<'_, E>, places: &[usize]) {
    const LINE: usize = 64;
    for place in places {
        let (k, v) = (keys.k.as_ptr().wrapping_add(*place), keys.v.as_ptr().wrapping_add(*place));
        for at in (0..keys.dim).step_by(LINE / size_of::<E>()) {
            // SAFETY: nothing is read.
            unsafe {
                S::soon(k.wrapping_add(at));
                S::soon(v.wrapping_add(at));
            }
        }
    }
}

/// A register's worth of keys, from `first` on, into their columns of a panel.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "indices over registers; iterators would hide the tile")]
pub(super) unsafe fn turn<S: Simd, E: Element>(keys: &Keys<'_, E>, first: usize, panel: &mut [f32]) {
    let column = first % LANES;
    let mut d = 0;
    // SAFETY: whole registers of every key; the panel has sixteen numbers for each of the head.
    unsafe {
        let (k, out) = (keys.k.as_ptr(), panel.as_mut_ptr().add(column));
        let mut at = [k; LANES];
        for i in 0..S::WIDTH {
            at[i] = k.add(keys.places[first + i]);
        }
        while d + S::WIDTH <= keys.dim {
            let mut square = [S::splat(0.0); LANES];
            for i in 0..S::WIDTH {
                square[i] = E::load::<S>(at[i].add(d));
            }
            S::turn(&mut square);
            for i in 0..S::WIDTH {
                S::store(out.add((d + i) * LANES), square[i]);
            }
            d += S::WIDTH;
        }
    }
    for d in d..keys.dim {
        for i in 0..S::WIDTH {
            panel[d * LANES + column + i] = keys.k[keys.places[first + i] + d].to_f32();
        }
    }
}

/// One key's values into the panels; beyond the head's last number stand zeros.
#[inline(always)]
unsafe fn values<S: Simd, E: Element>(keys: &Keys<'_, E>, key: usize, panels: &mut [f32]) {
    let whole = keys.dim / LANES * LANES;
    let from = &keys.v[keys.places[key]..][..keys.dim];
    // SAFETY: whole registers of the head; the panels have a row for each key.
    unsafe {
        let mut out = panels.as_mut_ptr().add(key * LANES);
        for d in (0..whole).step_by(LANES) {
            for part in 0..S::PARTS {
                S::store(out.add(part * S::WIDTH), E::load::<S>(from.as_ptr().add(d + part * S::WIDTH)));
            }
            out = out.add(STEP);
        }
    }
    if whole < keys.dim {
        let rest = &mut panels[whole / LANES * STEP + key * LANES..][..LANES];
        rest.fill(0.0);
        for (out, v) in rest.iter_mut().zip(&from[whole..]) {
            *out = v.to_f32();
        }
    }
}
