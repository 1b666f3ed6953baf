//! A token with few query heads against one tile of keys, straight from the pool: the work of decoding.
//!
//! Laying out a tile pays when several groups of queries use it. Here keys are turned a few at a time, while they are close, and
//! values are multiplied as they lie. Every sum has the order that [`outer`](super::outer) gives it, to the same bits.

use std::ops::Range;

use super::outer::{DEEP, Panels, Rows, outer};
use super::pack::{Element, Keys, Packed, TILE, Visible, soon, turn};
use super::tile::{State, seen_panels, weights};
use super::{Job, Task};
use crate::simd::sixteen::Sixteen;
use crate::simd::{LANES, Simd};

/// Whether a task is for [`attend`].
pub(super) fn is_few(task: &Task) -> bool {
    task.tokens.len() == 1 && task.heads.len() <= DEEP
}

/// One tile onto the state of the task's queries; those at `next` are asked for.
///
/// # Safety
/// The instruction set of `S` exists, `is_few(task)` and `keys.check()` hold, and `state` was begun for the task.
#[inline(always)]
pub(super) unsafe fn attend<S: Simd + Sixteen, E: Element>(
    job: &Job<'_>,
    task: &Task,
    keys: &Keys<'_, E>,
    next: &[usize; TILE],
    (packed, state): (&mut Packed, &mut State),
) {
    let (panels, count) = (&mut packed.k[..], task.heads.len());
    let visible = state.visible[0].clone();
    let step = job.dim * LANES;
    // SAFETY: passed on; a query has as many numbers as a key.
    unsafe {
        for panel in seen_panels(std::slice::from_ref(&visible)) {
            let first = panel * LANES;
            soon::<S, E>(keys, &next[first..first + LANES]);
            for part in 0..S::PARTS {
                turn::<S, E>(keys, first + part * S::WIDTH, &mut panels[..step]);
            }
            let mut rows = Rows::new();
            for query in 0..count {
                let scores = &mut state.scores[query * TILE + first..][..LANES];
                scores.fill(0.0);
                rows.push(job.query(task.tokens.start, task.heads.start + query).as_ptr(), scores.as_mut_ptr());
            }
            outer(S::ISA, &rows, Panels { b: panels.as_ptr(), step, count: 1, len: job.dim });
        }
        for query in 0..count {
            weights::<S>(job, task, state, [0, query]);
        }
        match count {
            1 => values::<S, E, 1>(keys, &visible, state),
            2 => values::<S, E, 2>(keys, &visible, state),
            3 => values::<S, E, 3>(keys, &visible, state),
            4 => values::<S, E, 4>(keys, &visible, state),
            5 => values::<S, E, 5>(keys, &visible, state),
            6 => values::<S, E, 6>(keys, &visible, state),
            more => unreachable!("{more} heads are not few"),
        }
    }
}

/// Weighted values onto the sums.
#[inline(always)]
unsafe fn values<S: Simd, E: Element, const M: usize>(keys: &Keys<'_, E>, visible: &Visible, state: &mut State) {
    let State { acc, width, scores, .. } = state;
    let whole = keys.dim / S::WIDTH * S::WIDTH;
    let mut sums = [std::ptr::null_mut(); M];
    for (sums, acc) in sums.iter_mut().zip(acc.chunks_exact_mut(*width)) {
        *sums = acc.as_mut_ptr();
    }
    let weights = scores.as_ptr();
    let mut d = 0;
    // SAFETY: whole registers of the head, of every sum and value.
    unsafe {
        while M <= 2 && d + 4 * S::WIDTH <= whole {
            columns::<S, E, M, 4>(&sums, weights, (keys, d), visible);
            d += 4 * S::WIDTH;
        }
        while d + 2 * S::WIDTH <= whole {
            columns::<S, E, M, 2>(&sums, weights, (keys, d), visible);
            d += 2 * S::WIDTH;
        }
        if d < whole {
            columns::<S, E, M, 1>(&sums, weights, (keys, d), visible);
        }
        for d in whole..keys.dim {
            for key in visible.iter().flat_map(Range::clone) {
                let v = (*keys.v.as_ptr().add(keys.places[key] + d)).to_f32();
                for (m, sum) in sums.iter().enumerate() {
                    *sum.add(d) = (*weights.add(m * TILE + key)).mul_add(v, *sum.add(d));
                }
            }
        }
    }
}

/// `N` registers of the head from `d` on.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "as in `products`")]
unsafe fn columns<S: Simd, E: Element, const M: usize, const N: usize>(
    acc: &[*mut f32; M],
    weights: *const f32,
    (keys, d): (&Keys<'_, E>, usize),
    visible: &Visible,
) {
    // SAFETY: passed on.
    unsafe {
        let mut sums = [[S::splat(0.0); N]; M];
        for m in 0..M {
            for n in 0..N {
                sums[m][n] = S::load(acc[m].add(d + n * S::WIDTH));
            }
        }
        for range in visible {
            for key in range.clone() {
                let v = keys.v.as_ptr().add(*keys.places.get_unchecked(key) + d);
                for n in 0..N {
                    let v = E::load::<S>(v.add(n * S::WIDTH));
                    for m in 0..M {
                        sums[m][n] = S::fma(S::splat(*weights.add(m * TILE + key)), v, sums[m][n]);
                    }
                }
            }
        }
        for m in 0..M {
            for n in 0..N {
                S::store(acc[m].add(d + n * S::WIDTH), sums[m][n]);
            }
        }
    }
}
