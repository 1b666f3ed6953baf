//! Some queries against one tile of keys: products, softmax, weighted values.
//!
//! Two queries that see the same keys go together, so that keys and values are loaded once for both. A query's own order of
//! operations is the same either way: products in sixteen lanes over the head, values key by key.

use std::ops::Range;

use half::{bf16, f16};

use crate::simd::exp::exp;
use crate::simd::{LANES, Simd};

/// Keys per tile, cut at multiples of it.
pub(super) const TILE: usize = 64;

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

/// The keys of a tile that a token sees: of those kept from the start, and of its window. Either may be empty.
pub(super) type Visible = [Range<usize>; 2];

/// Keys and values of one key head: those of key `i` of the tile begin at `places[i]`.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a, E> {
    pub(super) k: &'a [E],
    pub(super) v: &'a [E],
    pub(super) places: &'a [usize; TILE],
    pub(super) dim: usize,
}

impl<E: Element> Keys<'_, E> {
    /// Panics unless every visible key lies inside the pools.
    pub(super) fn check(&self, visible: &Visible) {
        for place in visible.iter().flat_map(|range| &self.places[range.clone()]) {
            assert!(place + self.dim <= self.k.len() && place + self.dim <= self.v.len(), "a slot beyond the pool");
        }
    }
}

/// A query's running state: largest score, sum of weights, weighted sum of values.
pub(super) struct State<'a> {
    pub(super) max: &'a mut f32,
    pub(super) sum: &'a mut f32,
    pub(super) acc: &'a mut [f32],
}

/// What is done to a product before the softmax.
#[derive(Clone, Copy)]
pub(super) struct Score {
    pub(super) scale: f32,
    pub(super) softcap: Option<f32>,
}

/// The same `Q` queries' worth of keys onto their states.
///
/// # Safety
/// The set of `S` exists, `keys.check(visible)` holds, and queries and sums have the size of a head.
#[inline(always)]
pub(super) unsafe fn attend<S: Simd, E: Element, const Q: usize>(
    score: Score,
    q: [&[f32]; Q],
    keys: Keys<'_, E>,
    visible: &Visible,
    states: [State<'_>; Q],
) {
    let mut scores = [[0f32; TILE]; Q];
    let mut shrink = [0f32; Q];
    // SAFETY: passed on.
    unsafe {
        products::<S, E, Q>(q, keys, visible, &mut scores);
        let mut acc = [std::ptr::null_mut(); Q];
        for (i, state) in states.into_iter().enumerate() {
            mask(score, &mut scores[i], visible);
            shrink[i] = soften(&mut scores[i], state.max, state.sum);
            acc[i] = state.acc.as_mut_ptr();
        }
        values::<S, E, Q>(acc, shrink, &scores, keys, visible);
    }
}

#[inline(always)]
unsafe fn products<S: Simd, E: Element, const Q: usize>(
    q: [&[f32]; Q],
    keys: Keys<'_, E>,
    visible: &Visible,
    scores: &mut [[f32; TILE]; Q],
) {
    for range in visible {
        let mut key = range.start;
        // SAFETY: passed on.
        unsafe {
            while key + 2 <= range.end {
                dots::<S, E, Q, 2>(q, keys, key, scores);
                key += 2;
            }
            if key < range.end {
                dots::<S, E, Q, 1>(q, keys, key, scores);
            }
        }
    }
}

/// `Q` queries by `K` keys.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "indices over registers; iterators would hide the tile")]
unsafe fn dots<S: Simd, E: Element, const Q: usize, const K: usize>(
    q: [&[f32]; Q],
    keys: Keys<'_, E>,
    key: usize,
    scores: &mut [[f32; TILE]; Q],
) {
    let whole = keys.dim / LANES * LANES;
    // SAFETY: whole registers of the head, of every query and key.
    unsafe {
        let mut k = [keys.k.as_ptr(); K];
        for j in 0..K {
            k[j] = k[j].add(keys.places[key + j]);
        }
        let mut sums = [[[S::splat(0.0); 2]; K]; Q];
        let mut d = 0;
        while d < whole {
            for part in 0..S::PARTS {
                let d = d + part * S::WIDTH;
                let mut qs = [S::splat(0.0); Q];
                for i in 0..Q {
                    qs[i] = S::load(q[i].as_ptr().add(d));
                }
                for j in 0..K {
                    let ks = E::load::<S>(k[j].add(d));
                    for i in 0..Q {
                        sums[i][j][part] = S::fma(qs[i], ks, sums[i][j][part]);
                    }
                }
            }
            d += LANES;
        }
        if Q * K == 4 {
            let all = S::sum4([sums[0][0], sums[0][K - 1], sums[Q - 1][0], sums[Q - 1][K - 1]]);
            for i in 0..Q {
                for j in 0..K {
                    scores[i][key + j] = all[i * K + j];
                }
            }
        } else {
            for i in 0..Q {
                for j in 0..K {
                    scores[i][key + j] = S::sum(sums[i][j]);
                }
            }
        }
        for d in whole..keys.dim {
            for i in 0..Q {
                for j in 0..K {
                    scores[i][key + j] = q[i][d].mul_add((*k[j].add(d)).to_f32(), scores[i][key + j]);
                }
            }
        }
    }
}

/// Products to scores; what is not seen to minus infinity.
#[inline(always)]
fn mask(score: Score, scores: &mut [f32; TILE], visible: &Visible) {
    for s in scores.iter_mut() {
        *s *= score.scale;
    }
    if let Some(cap) = score.softcap {
        for s in scores.iter_mut() {
            *s = (*s / cap).tanh() * cap;
        }
    }
    let [kept, window] = visible;
    scores[kept.end..window.start.max(kept.end)].fill(f32::NEG_INFINITY);
    scores[..kept.start].fill(f32::NEG_INFINITY);
    scores[window.end.max(kept.end)..].fill(f32::NEG_INFINITY);
}

/// Scores to weights, over the whole tile so that the order of additions is fixed. Returns what earlier sums shrink by.
#[inline(always)]
fn soften(scores: &mut [f32; TILE], max: &mut f32, sum: &mut f32) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in scores.chunks_exact(LANES) {
        for (lane, s) in lanes.iter_mut().zip(chunk) {
            *lane = if *s > *lane { *s } else { *lane };
        }
    }
    let largest = lanes.iter().fold(*max, |a, b| a.max(*b));
    let shrink = exp(*max - largest);
    let mut lanes = [0f32; LANES];
    for chunk in scores.chunks_exact_mut(LANES) {
        for (lane, s) in lanes.iter_mut().zip(chunk) {
            *s = exp(*s - largest);
            *lane += *s;
        }
    }
    *max = largest;
    *sum = *sum * shrink + lanes.iter().sum::<f32>();
    shrink
}

/// `acc = acc * shrink + Σ weight · value`, for every query.
#[inline(always)]
unsafe fn values<S: Simd, E: Element, const Q: usize>(
    acc: [*mut f32; Q],
    shrink: [f32; Q],
    weights: &[[f32; TILE]; Q],
    keys: Keys<'_, E>,
    visible: &Visible,
) {
    let whole = keys.dim / LANES * LANES;
    // SAFETY: whole registers of the head, of every sum and value.
    unsafe {
        let mut d = 0;
        while d + 4 * S::WIDTH <= whole {
            columns::<S, E, Q, 4>(acc, shrink, weights, (keys, d), visible);
            d += 4 * S::WIDTH;
        }
        while d < whole {
            columns::<S, E, Q, 1>(acc, shrink, weights, (keys, d), visible);
            d += S::WIDTH;
        }
        for d in whole..keys.dim {
            for i in 0..Q {
                let acc = acc[i].add(d);
                *acc *= shrink[i];
                for key in visible.iter().flat_map(Range::clone) {
                    *acc = weights[i][key].mul_add((*keys.v.as_ptr().add(keys.places[key] + d)).to_f32(), *acc);
                }
            }
        }
    }
}

/// `N` registers of the head from `d` on.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "indices over registers; iterators would hide the tile")]
unsafe fn columns<S: Simd, E: Element, const Q: usize, const N: usize>(
    acc: [*mut f32; Q],
    shrink: [f32; Q],
    weights: &[[f32; TILE]; Q],
    (keys, d): (Keys<'_, E>, usize),
    visible: &Visible,
) {
    // SAFETY: passed on.
    unsafe {
        let mut sums = [[S::splat(0.0); N]; Q];
        for i in 0..Q {
            for n in 0..N {
                sums[i][n] = S::mul(S::load(acc[i].add(d + n * S::WIDTH)), S::splat(shrink[i]));
            }
        }
        for range in visible {
            for key in range.clone() {
                let v = keys.v.as_ptr().add(*keys.places.get_unchecked(key) + d);
                for n in 0..N {
                    let v = E::load::<S>(v.add(n * S::WIDTH));
                    for i in 0..Q {
                        sums[i][n] = S::fma(S::splat(*weights[i].get_unchecked(key)), v, sums[i][n]);
                    }
                }
            }
        }
        for i in 0..Q {
            for n in 0..N {
                S::store(acc[i].add(d + n * S::WIDTH), sums[i][n]);
            }
        }
    }
}

/// Keys and values of a tile as f32, one after another; those that nobody sees are left as they are.
///
/// # Safety
/// As [`attend`]; `out` has room for a tile of heads.
#[inline(always)]
pub(super) unsafe fn widen<S: Simd, E: Element>(from: &[E], places: &[usize; TILE], seen: &Visible, out: &mut [f32]) {
    let dim = out.len() / TILE;
    let whole = dim / LANES * LANES;
    for key in seen.iter().flat_map(Range::clone) {
        let (from, out) = (&from[places[key]..][..dim], &mut out[key * dim..][..dim]);
        // SAFETY: whole registers of the head.
        unsafe {
            let mut d = 0;
            while d < whole {
                S::store(out.as_mut_ptr().add(d), E::load::<S>(from.as_ptr().add(d)));
                d += S::WIDTH;
            }
        }
        for (out, from) in out[whole..].iter_mut().zip(&from[whole..]) {
            *out = from.to_f32();
        }
    }
}
