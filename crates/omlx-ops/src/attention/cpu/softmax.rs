//! Products to weights: scale, cap, mask, and the running softmax of one query over one tile.
//!
//! Always over the whole tile, in sixteen lanes and then halves, so that the order of additions is fixed.

use super::pack::{TILE, Visible};
use crate::simd::exp::decay;
use crate::simd::{LANES, Simd};

/// What is done to a product before the softmax.
#[derive(Clone, Copy)]
pub(super) struct Score {
    pub(super) scale: f32,
    pub(super) softcap: Option<f32>,
}

/// Products to scores; what is not seen to minus infinity.
#[inline(always)]
pub(super) fn mask(score: Score, scores: &mut [f32; TILE], visible: &Visible) {
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

/// Scores to weights. Returns what earlier sums shrink by.
///
/// # Safety
/// The instruction set of `S` exists.
#[inline(always)]
pub(super) unsafe fn soften<S: Simd>(scores: &mut [f32; TILE], max: &mut f32, sum: &mut f32) -> f32 {
    // SAFETY: whole registers of scores.
    let largest = unsafe {
        let mut largest = [S::splat(f32::NEG_INFINITY); 2];
        for chunk in scores.chunks_exact(LANES) {
            for part in 0..S::PARTS {
                largest[part] = S::max(S::load(chunk[part * S::WIDTH..].as_ptr()), largest[part]);
            }
        }
        S::largest(largest).max(*max)
    };
    let shrink = if largest == *max { 1.0 } else { decay(*max - largest) }; // the usual case costs nothing
    let mut lanes = [0f32; LANES];
    for chunk in scores.chunks_exact_mut(LANES) {
        for (lane, s) in lanes.iter_mut().zip(chunk) {
            *s = decay(*s - largest);
            *lane += *s;
        }
    }
    *max = largest;
    *sum = *sum * shrink + halves(lanes);
    shrink
}

/// Sixteen added: the upper half onto the lower, four times.
#[inline(always)]
fn halves(mut lanes: [f32; LANES]) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}
