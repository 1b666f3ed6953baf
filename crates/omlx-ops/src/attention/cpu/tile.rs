//! All queries of a task against one tile of keys: products, softmax, weighted values.
//!
//! Queries go in groups of up to six, whatever token and head they are. A query's own order of operations is the same in every
//! group: products along the head, values key by key, and no key that it does not see.

use std::ops::Range;

use super::outer::{DEEP, Panels, Rows, outer};
use super::pack::{Packed, STEP, TILE, Visible};
use super::softmax::{Score, mask, soften};
use super::{Job, Task};
use crate::simd::exp::decay;
use crate::simd::{LANES, Simd};

/// Groups whose scores are computed before any of them is weighted, so that first the keys and then the values are close.
const GROUPS: usize = 4;

/// A task's running state.
#[derive(Default)]
pub(super) struct State {
    /// `[queries, width]`: weighted sums of values.
    pub(super) acc: Vec<f32>,
    /// The head's size rounded up to whole panels.
    pub(super) width: usize,
    /// `[queries]`: largest score.
    max: Vec<f32>,
    /// `[queries]`: sum of weights.
    pub(super) sum: Vec<f32>,
    /// `[tokens]`: what each sees of the tile.
    pub(super) visible: Vec<Visible>,
    /// `[GROUPS * DEEP, TILE]`: products, then weights.
    pub(super) scores: Vec<f32>,
    /// The spans of the row that are done, for pools that are gone over in spans.
    pub(super) total: Sums,
    /// `[TILE]`: what products with the keys, and what weights of the values are multiplied with. Empty for plain numbers.
    pub(super) scales: [Vec<f32>; 2],
}

/// Weighted sums of values of some queries, as in [`State`].
#[derive(Default)]
pub(super) struct Sums {
    acc: Vec<f32>,
    max: Vec<f32>,
    sum: Vec<f32>,
}

impl State {
    /// For a task's first tile; `sinks` says whether they have their share from the start.
    pub(super) fn begin(&mut self, job: &Job<'_>, task: &Task, sinks: bool) {
        self.width = job.dim.next_multiple_of(LANES);
        self.scores.resize(GROUPS * DEEP * TILE, 0.0);
        self.scales.iter_mut().for_each(Vec::clear);
        self.clear(task.queries());
        if let Some(sinks) = job.sinks.filter(|_| sinks) {
            for (i, max) in self.max.iter_mut().enumerate() {
                *max = sinks[task.heads.start + i % task.heads.len()];
            }
            self.sum.fill(1.0);
        }
    }

    /// Nothing was seen by any of `queries`.
    fn clear(&mut self, queries: usize) {
        let sums = [(&mut self.acc, queries * self.width, 0.0), (&mut self.sum, queries, 0.0)];
        for (numbers, len, x) in sums.into_iter().chain([(&mut self.max, queries, f32::NEG_INFINITY)]) {
            numbers.clear();
            numbers.resize(len, x);
        }
    }

    /// What is there now is the total that spans are added to.
    pub(super) fn begin_total(&mut self) {
        self.swap_total();
        self.clear(self.total.max.len());
    }

    /// The present span to the total, and begins the next.
    pub(super) fn end_span(&mut self) {
        for query in 0..self.max.len() {
            let part = (self.max[query], self.sum[query], &self.acc[query * self.width..][..self.width]);
            self.total.add(query, part);
        }
        self.clear(self.max.len());
    }

    /// Afterwards the total stands where spans did.
    pub(super) fn swap_total(&mut self) {
        std::mem::swap(&mut self.acc, &mut self.total.acc);
        std::mem::swap(&mut self.max, &mut self.total.max);
        std::mem::swap(&mut self.sum, &mut self.total.sum);
    }

    /// Numbers that [`save`](Self::save) writes for so many queries.
    pub(super) fn saved(queries: usize, dim: usize) -> usize {
        queries * (2 + dim.next_multiple_of(LANES))
    }

    /// The present span, for another thread.
    pub(super) fn save(&self, room: &mut [f32]) {
        let count = self.max.len();
        let (heads, acc) = room.split_at_mut(2 * count);
        heads[..count].copy_from_slice(&self.max);
        heads[count..].copy_from_slice(&self.sum);
        acc.copy_from_slice(&self.acc);
    }

    /// A saved span to the total.
    pub(super) fn add_saved(&mut self, room: &[f32]) {
        let count = self.total.max.len();
        let (heads, acc) = room.split_at(2 * count);
        for (query, acc) in acc.chunks_exact(self.width).enumerate() {
            self.total.add(query, (heads[query], heads[count + query], acc));
        }
    }
}

impl Sums {
    /// Adds what a query has of a span: largest score, sum of weights, weighted values.
    fn add(&mut self, query: usize, (max, sum, acc): (f32, f32, &[f32])) {
        let nothing = |max: f32, sum: f32| sum == 0.0 && max == f32::NEG_INFINITY;
        if nothing(max, sum) {
            return;
        }
        let (all_max, all_sum) = (&mut self.max[query], &mut self.sum[query]);
        let all = &mut self.acc[query * acc.len()..][..acc.len()];
        if nothing(*all_max, *all_sum) {
            (*all_max, *all_sum) = (max, sum);
            all.copy_from_slice(acc);
            return;
        }
        let largest = all_max.max(max);
        let (before, now) = (decay(*all_max - largest), decay(max - largest));
        (*all_max, *all_sum) = (largest, *all_sum * before + sum * now);
        for (all, acc) in all.iter_mut().zip(acc) {
            *all = *all * before + acc * now;
        }
    }
}

/// One tile onto the state of the task's queries; `state.visible` says which keys they see.
///
/// # Safety
/// The instruction set of `S` exists, `state` was begun for the task, and `packed` holds all keys that are seen.
#[inline(always)]
pub(super) unsafe fn attend<S: Simd>(job: &Job<'_>, task: &Task, packed: &Packed, state: &mut State) {
    let count = task.tokens.len() * task.heads.len();
    // Groups of almost one size: eight queries are four and four, not six and two.
    let groups = count.div_ceil(DEEP);
    let start = |group: usize| count * group / groups;
    for batch in (0..groups).step_by(GROUPS) {
        let batch = batch..(batch + GROUPS).min(groups);
        let first = start(batch.start);
        // SAFETY: passed on.
        unsafe {
            for group in batch.clone() {
                products::<S>(job, task, packed, state, [first, start(group), start(group + 1)]);
            }
            for query in first..start(batch.end) {
                weights::<S>(job, task, state, [first, query]);
            }
            for group in batch {
                values::<S>(task, packed, state, [first, start(group), start(group + 1)]);
            }
        }
    }
}

/// Products of the queries `from..to`, of all panels in which they see a key. `first` has the first row of scores.
#[inline(always)]
unsafe fn products<S: Simd>(
    job: &Job<'_>,
    task: &Task,
    packed: &Packed,
    state: &mut State,
    [first, from, to]: [usize; 3],
) {
    let heads = task.heads.len();
    let panels = seen_panels(&state.visible[from / heads..=(to - 1) / heads]);
    if panels.is_empty() {
        return;
    }
    let scores = &mut state.scores[(from - first) * TILE..(to - first) * TILE];
    scores.fill(0.0);
    let scores = scores.as_mut_ptr();
    let mut rows = Rows::new();
    for query in from..to {
        let q = job.query(task.tokens.start + query / heads, task.heads.start + query % heads);
        rows.push(q.as_ptr(), scores.wrapping_add((query - from) * TILE + panels.start * LANES));
    }
    let step = job.dim * LANES;
    let b = packed.k[panels.start * step..panels.end * step].as_ptr();
    // SAFETY: passed on; a query has as many numbers as a key.
    unsafe { outer(S::ISA, &rows, Panels { b, step, count: panels.len(), len: job.dim }) }
}

/// From the first panel in which one of some tokens sees a key to the last one.
#[inline(always)]
pub(super) fn seen_panels(visible: &[Visible]) -> Range<usize> {
    let seen = visible.iter().flatten().filter(|range| !range.is_empty());
    let (low, high) = seen.fold((TILE, 0), |(low, high), range| (range.start.min(low), range.end.max(high)));
    low / LANES..high.div_ceil(LANES)
}

/// A query's products to weights; its sums shrink to their new measure.
#[inline(always)]
pub(super) unsafe fn weights<S: Simd>(job: &Job<'_>, task: &Task, state: &mut State, [first, query]: [usize; 2]) {
    let visible = &state.visible[query / task.heads.len()];
    if visible.iter().all(Range::is_empty) {
        return;
    }
    let scores = state.scores[(query - first) * TILE..].first_chunk_mut::<TILE>().expect("a row of scores");
    for (score, scale) in scores.iter_mut().zip(&state.scales[0]) {
        *score *= scale;
    }
    mask(Score { scale: job.how.scale, softcap: job.how.softcap }, scores, visible);
    // SAFETY: passed on.
    let shrink = unsafe { soften::<S>(scores, &mut state.max[query], &mut state.sum[query]) };
    for (weight, scale) in scores.iter_mut().zip(&state.scales[1]) {
        *weight *= scale;
    }
    if shrink != 1.0 {
        for acc in &mut state.acc[query * state.width..][..state.width] {
            *acc *= shrink;
        }
    }
}

/// Weighted values onto the sums of the queries `from..to`.
#[inline(always)]
unsafe fn values<S: Simd>(task: &Task, packed: &Packed, state: &mut State, [first, from, to]: [usize; 3]) {
    let heads = task.heads.len();
    let tokens = from / heads..(to - 1) / heads + 1;
    let same = state.visible[tokens.start] == state.visible[tokens.end - 1];
    // SAFETY: passed on.
    unsafe {
        if same {
            for keys in state.visible[tokens.start].clone() {
                weigh::<S>(packed, state, [first, from, to], keys);
            }
            return;
        }
        // Where tokens see different keys: from one end of somebody's range to the next. Later tokens see later keys, so
        // those that see one are neighbours.
        let mut ends = [TILE; 4 * DEEP];
        for (ends, range) in ends.chunks_exact_mut(2).zip(state.visible[tokens.clone()].iter().flatten()) {
            ends.copy_from_slice(&[range.start, range.end]);
        }
        ends.sort_unstable();
        for keys in ends.windows(2).map(|ends| ends[0]..ends[1]).filter(|keys| !keys.is_empty()) {
            let sees = |token: &usize| state.visible[*token].iter().any(|range| range.contains(&keys.start));
            if let (Some(low), Some(high)) = (tokens.clone().find(sees), tokens.clone().rfind(sees)) {
                weigh::<S>(packed, state, [first, from.max(low * heads), to.min((high + 1) * heads)], keys);
            }
        }
    }
}

/// The values of `keys`, which all of the queries `from..to` see.
#[inline(always)]
unsafe fn weigh<S: Simd>(packed: &Packed, state: &mut State, [first, from, to]: [usize; 3], keys: Range<usize>) {
    if keys.is_empty() {
        return;
    }
    let width = state.width;
    let acc = state.acc[from * width..to * width].as_mut_ptr();
    let weights = state.scores[(from - first) * TILE..(to - first) * TILE].as_ptr();
    let mut rows = Rows::new();
    for query in 0..to - from {
        rows.push(weights.wrapping_add(query * TILE + keys.start), acc.wrapping_add(query * width));
    }
    let b = packed.v[keys.start * LANES..].as_ptr();
    // SAFETY: passed on.
    unsafe { outer(S::ISA, &rows, Panels { b, step: STEP, count: width / LANES, len: keys.len() }) }
}
