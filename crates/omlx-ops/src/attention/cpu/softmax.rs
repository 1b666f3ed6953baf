//! Products to weights: scale, cap, mask, and the running softmax of one query over one tile.
//!
//! Always over the whole tile, in sixteen lanes and then halves, so that the order of additions is fixed.

use super::pack::{TILE, Visible};
use crate::simd::LANES;
use crate::simd::exp::decay;

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
#[inline(always)]
pub(super) fn soften(scores: &mut [f32; TILE], max: &mut f32, sum: &mut f32) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in scores.chunks_exact(LANES) {
        for (lane, s) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*s, *lane);
        }
    }
    let largest = larger(halves(lanes, larger), *max);
    let shrink = decay(*max - largest);
    let mut lanes = [0f32; LANES];
    for chunk in scores.chunks_exact_mut(LANES) {
        for (lane, s) in lanes.iter_mut().zip(chunk) {
            *s = decay(*s - largest);
            *lane += *s;
        }
    }
    *max = largest;
    *sum = *sum * shrink + halves(lanes, |a, b| a + b);
    shrink
}

/// The larger one; the second where the first is not a number.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Sixteen to one: the upper half onto the lower, four times.
#[inline(always)]
fn halves(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = join(lanes[i], lanes[i + half]);
        }
    }
    lanes[0]
}
