//! The CPU version: online softmax (Milakov and Gimelshein, 2018) over tiles of keys, straight from the pool.
//!
//! Tiles are cut at absolute positions, so a query adds up its keys in the same order whatever chunk or batch it arrives in.
//! A task is some tokens of one row for one key head (or a part of its query heads).

use std::ops::Range;

use candle_core::Tensor;
use half::{bf16, f16};

use super::{Attend, Pool, RowView};
use crate::simd::exp::exp;
use crate::simd::{Isa, LANES, Simd, for_isa};
use crate::threads::{self, SharedMut};
use crate::{Result, host};

/// Keys per tile, cut at multiples of it.
const TILE: usize = 64;
/// Query tokens per task.
const TOKENS: usize = 16;

/// A type that pools are made of.
trait Element: Copy + Sync {
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

pub(super) fn attention(q: &Tensor, pool: Pool<'_>, rows: &RowView, how: &Attend) -> Result<Tensor> {
    attention_with(Isa::best(), q, pool, rows, how)
}

pub(super) fn attention_with(isa: Isa, q: &Tensor, pool: Pool<'_>, rows: &RowView, how: &Attend) -> Result<Tensor> {
    let (tokens, heads, dim) = q.dims3()?;
    let kv_heads = pool.k.dim(1)?;
    let queries = host::rows(q, "attention", "q")?;
    let (k, k_layout) = pool.k.storage_and_layout();
    let (v, v_layout) = pool.v.storage_and_layout();
    let sinks = how.sinks.as_ref().map(|s| host::rows(s, "attention", "sinks")).transpose()?;
    let mut out = vec![0f32; tokens * heads * dim];
    let job = Job {
        q: queries.as_slice(),
        stride: queries.stride(),
        out: SharedMut::new(&mut out),
        rows,
        how,
        sinks: sinks.as_ref().map(|s| s.as_slice()),
        block: pool.block,
        heads,
        kv_heads,
        dim,
    };
    let tasks = job.tasks();
    let k = host::Floats::of(&k, k_layout.start_offset(), "attention")?;
    let v = host::Floats::of(&v, v_layout.start_offset(), "attention")?;
    threads::for_each(tasks.len(), |task| match (&k, &v) {
        (host::Floats::F32(k), host::Floats::F32(v)) => job.run(isa, k, v, &tasks[task]),
        (host::Floats::F16(k), host::Floats::F16(v)) => job.run(isa, k, v, &tasks[task]),
        (host::Floats::Bf16(k), host::Floats::Bf16(v)) => job.run(isa, k, v, &tasks[task]),
        _ => unreachable!("`attention` checked that both pools have one type"),
    });
    host::tensor(out, (tokens, heads, dim))
}

/// Some tokens of a row, some query heads that share a key head.
struct Task {
    row: usize,
    tokens: Range<usize>,
    kv_head: usize,
    heads: Range<usize>,
}

struct Job<'a> {
    q: &'a [f32],
    stride: usize,
    out: SharedMut<f32>,
    rows: &'a RowView,
    how: &'a Attend,
    sinks: Option<&'a [f32]>,
    block: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
}

impl Job<'_> {
    fn tasks(&self) -> Vec<Task> {
        let group = self.heads / self.kv_heads;
        // Few tasks (decode with few rows): share a group's query heads out as well.
        let split = if self.rows.tokens() * self.kv_heads < threads::threads() { group } else { 1 };
        let each = group.div_ceil(split);
        let mut tasks = Vec::new();
        for row in 0..self.rows.rows() {
            let (from, to) = (self.rows.starts[row] as usize, self.rows.starts[row + 1] as usize);
            for at in (from..to).step_by(TOKENS) {
                for kv_head in 0..self.kv_heads {
                    for head in (0..group).step_by(each) {
                        let first = kv_head * group + head;
                        let heads = first..(first + each).min((kv_head + 1) * group);
                        tasks.push(Task { row, tokens: at..(at + TOKENS).min(to), kv_head, heads });
                    }
                }
            }
        }
        tasks.reverse(); // the longest contexts first, so that no thread starts one last
        tasks
    }

    fn run<E: Element>(&self, isa: Isa, k: &[E], v: &[E], task: &Task) {
        let job = self;
        for_isa!(isa, run::<E: Element>(job: &Job<'_>, k: &[E], v: &[E], task: &Task));
    }
}

/// A query's running state: largest score, sum of weights, weighted sum of values.
struct State {
    max: f32,
    sum: f32,
    acc: Vec<f32>,
}

/// # Safety
/// The instruction set of `S` exists.
#[inline(always)]
unsafe fn run<S: Simd, E: Element>(job: &Job<'_>, k: &[E], v: &[E], task: &Task) {
    let (dim, reach) = (job.dim, job.how.reach);
    let shift = job.rows.start_position(task.row) as isize - job.rows.starts[task.row] as isize;
    let position = |token: usize| (token as isize + shift) as usize;
    let start = |head: usize| match job.sinks {
        Some(sinks) => State { max: sinks[head], sum: 1.0, acc: vec![0.0; dim] },
        None => State { max: f32::NEG_INFINITY, sum: 0.0, acc: vec![0.0; dim] },
    };
    let mut states: Vec<State> = task.tokens.clone().flat_map(|_| task.heads.clone().map(start)).collect();
    let last = position(task.tokens.end - 1);
    let mut tile = reach.first_visible(position(task.tokens.start)) / TILE * TILE;
    let mut places = [0usize; TILE];
    while tile <= last {
        // where the tile's keys lie; those behind every query's reach may be forgotten and are not asked for
        let from = reach.first_visible(position(task.tokens.start)).max(tile);
        let to = (last + 1).min(tile + TILE);
        for pos in from..to {
            places[pos - tile] = (job.rows.slot(task.row, pos, job.block) * job.kv_heads + task.kv_head) * dim;
        }
        let mut state = states.iter_mut();
        for token in task.tokens.clone() {
            let at = position(token);
            let visible = reach.first_visible(at).max(tile)..(at + 1).min(tile + TILE);
            for head in task.heads.clone() {
                let state = state.next().expect("one state per token and head");
                if !visible.is_empty() {
                    let q = &job.q[token * job.stride + head * dim..][..dim];
                    let places = &places[visible.start - tile..visible.end - tile];
                    // SAFETY: passed on; the places lie inside the pools, which the slices check per key.
                    unsafe { step::<S, E>(job.how, q, (k, v), places, state) };
                }
            }
        }
        tile += TILE;
    }
    let mut state = states.iter();
    for token in task.tokens.clone() {
        for head in task.heads.clone() {
            let state = state.next().expect("one state per token and head");
            // SAFETY: this token and head belong to this task alone.
            let out = unsafe { job.out.slice((token * job.heads + head) * dim, dim) };
            for (out, acc) in out.iter_mut().zip(&state.acc) {
                *out = acc / state.sum;
            }
        }
    }
}

/// One query against up to a tile of keys.
#[inline(always)]
unsafe fn step<S: Simd, E: Element>(
    how: &Attend,
    q: &[f32],
    (k, v): (&[E], &[E]),
    places: &[usize],
    state: &mut State,
) {
    let mut scores = [f32::NEG_INFINITY; TILE];
    for (score, place) in scores.iter_mut().zip(places) {
        // SAFETY: both slices have the head size.
        let dot = unsafe { dot::<S, E>(q, &k[*place..][..q.len()]) } * how.scale;
        *score = match how.softcap {
            Some(cap) => (dot / cap).tanh() * cap,
            None => dot,
        };
    }
    let scores = &mut scores[..places.len()];
    let max = scores.iter().fold(state.max, |a, b| a.max(*b));
    let shrink = exp(state.max - max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = exp(*score - max);
    }
    for weight in scores.iter() {
        sum += *weight;
    }
    state.max = max;
    state.sum = state.sum * shrink + sum;
    // SAFETY: `acc` has the head size and every place is followed by one whole head.
    unsafe { accumulate::<S, E>(&mut state.acc, shrink, v, places, scores) };
}

#[inline(always)]
unsafe fn dot<S: Simd, E: Element>(q: &[f32], k: &[E]) -> f32 {
    let whole = q.len() / LANES * LANES;
    // SAFETY: both have at least `whole` elements.
    let mut sum = unsafe {
        let (mut even, mut odd) = ([S::splat(0.0); 2], [S::splat(0.0); 2]);
        let (q, k) = (q.as_ptr(), k.as_ptr());
        let mut i = 0;
        while i + 2 * LANES <= whole {
            multiply::<S, E>(&mut even, q.add(i), k.add(i));
            multiply::<S, E>(&mut odd, q.add(i + LANES), k.add(i + LANES));
            i += 2 * LANES;
        }
        if i < whole {
            multiply::<S, E>(&mut even, q.add(i), k.add(i));
        }
        S::sum([S::add(even[0], odd[0]), S::add(even[1], odd[1])])
    };
    for i in whole..q.len() {
        sum = q[i].mul_add(k[i].to_f32(), sum);
    }
    sum
}

/// Sixteen products on top of `lanes`.
#[inline(always)]
unsafe fn multiply<S: Simd, E: Element>(lanes: &mut [S::V; 2], q: *const f32, k: *const E) {
    for (part, lanes) in lanes.iter_mut().enumerate().take(S::PARTS) {
        let at = part * S::WIDTH;
        // SAFETY: sixteen elements are readable, says the caller.
        *lanes = unsafe { S::fma(S::load(q.add(at)), E::load::<S>(k.add(at)), *lanes) };
    }
}

/// `acc = acc * shrink + Σ weight · value`.
#[inline(always)]
unsafe fn accumulate<S: Simd, E: Element>(acc: &mut [f32], shrink: f32, v: &[E], places: &[usize], weights: &[f32]) {
    let dim = acc.len();
    let whole = dim / LANES * LANES;
    assert!(places.iter().all(|place| place + dim <= v.len()));
    for d in (0..whole).step_by(S::WIDTH) {
        // SAFETY: a register's worth of elements from `d` on exists in `acc` and in every value.
        unsafe {
            let mut sum = S::mul(S::load(acc.as_ptr().add(d)), S::splat(shrink));
            for (place, weight) in places.iter().zip(weights) {
                sum = S::fma(S::splat(*weight), E::load::<S>(v.as_ptr().add(place + d)), sum);
            }
            S::store(acc.as_mut_ptr().add(d), sum);
        }
    }
    for d in whole..dim {
        acc[d] *= shrink;
        for (place, weight) in places.iter().zip(weights) {
            acc[d] = weight.mul_add(v[place + d].to_f32(), acc[d]);
        }
    }
}
