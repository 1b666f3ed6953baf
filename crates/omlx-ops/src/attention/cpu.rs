//! The CPU version: online softmax (Milakov and Gimelshein, 2018) over tiles of keys, straight from the pool.
//!
//! Tiles are cut at absolute positions, so a query adds up its keys in the same order whatever chunk or batch it arrives in.
//! A task is some tokens of one row for one key head (or a part of its query heads). Where many queries share a tile it is
//! first widened to f32, once for all of them.

mod tile;

use std::cell::Cell;
use std::ops::Range;

use candle_core::Tensor;

use self::tile::{Element, Keys, Score, State, TILE, Visible, attend, widen};
use super::{Attend, Pool, RowView};
use crate::simd::{Isa, Simd, for_isa};
use crate::threads::{self, SharedMut};
use crate::{Result, host};

/// Query tokens per task.
const TOKENS: usize = 16;
/// From so many queries on a tile is widened first.
const MANY: usize = 8;

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

/// A thread's buffers, kept between tasks.
#[derive(Default)]
struct Scratch {
    acc: Vec<f32>,  // [queries, D]
    max: Vec<f32>,  // [queries]
    sum: Vec<f32>,  // [queries]
    wide: Vec<f32>, // [2, TILE, D]
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
        // Taken out and put back rather than borrowed in a closure: a closure's body would be compiled without the
        // instruction set, and every intrinsic would become a call.
        thread_local!(static SCRATCH: Cell<Scratch> = Cell::new(Scratch::default()));
        let mut scratch = SCRATCH.take();
        let (job, s) = (self, &mut scratch);
        for_isa!(isa, run::<E: Element>(job: &Job<'_>, k: &[E], v: &[E], task: &Task, s: &mut Scratch));
        SCRATCH.set(scratch);
    }

    /// The position of one of the step's tokens.
    fn position(&self, task: &Task, token: usize) -> usize {
        token - self.rows.starts[task.row] as usize + self.rows.start_position(task.row)
    }

    /// What the token at `pos` sees of a tile.
    fn visible(&self, pos: usize, tile: usize) -> Visible {
        let reach = self.how.reach;
        [inside(tile, 0, reach.kept(pos)), inside(tile, reach.first_visible(pos), pos + 1)]
    }

    /// Where the keys of a tile lie that the task's tokens see between them; others may be forgotten and are not asked for.
    fn places(&self, task: &Task, tile: usize, seen: &Visible, places: &mut [usize; TILE]) {
        let width = self.kv_heads * self.dim;
        for range in seen {
            let mut pos = tile + range.start;
            while pos < tile + range.end {
                let to = (pos / self.block + 1) * self.block;
                let mut place = self.rows.slot(task.row, pos, self.block) * width + task.kv_head * self.dim;
                for key in pos..to.min(tile + range.end) {
                    places[key - tile] = place;
                    place += width;
                }
                pos = to;
            }
        }
    }

    fn query(&self, token: usize, head: usize) -> &[f32] {
        &self.q[token * self.stride + head * self.dim..][..self.dim]
    }
}

/// # Safety
/// The instruction set of `S` exists.
#[inline(always)]
unsafe fn run<S: Simd, E: Element>(job: &Job<'_>, k: &[E], v: &[E], task: &Task, scratch: &mut Scratch) {
    let dim = job.dim;
    let count = task.tokens.len() * task.heads.len();
    begin(job, task, count, scratch);
    let (first, last) = (job.position(task, task.tokens.start), job.position(task, task.tokens.end - 1));
    let window = job.how.reach.first_visible(first) / TILE * TILE;
    let mut places = [0usize; TILE];
    let mut tile = 0;
    while tile <= last {
        // a later token keeps no less, and the windows together go from the first one's start to the last one's end
        let kept = inside(tile, 0, job.how.reach.kept(last));
        if tile < window && kept.is_empty() {
            tile = window; // between what is kept and the window
            continue;
        }
        let seen = [kept.clone(), inside(tile, job.how.reach.first_visible(first).max(tile + kept.end), last + 1)];
        job.places(task, tile, &seen, &mut places);
        let keys = Keys { k, v, places: &places, dim };
        keys.check(&seen);
        // SAFETY: passed on; the keys were checked.
        unsafe {
            if count < MANY {
                queries::<S, E>(job, task, tile, keys, scratch);
            } else {
                let mut wide = std::mem::take(&mut scratch.wide);
                wide.resize(2 * TILE * dim, 0.0);
                let (wide_k, wide_v) = wide.split_at_mut(TILE * dim);
                widen::<S, E>(k, &places, &seen, wide_k);
                widen::<S, E>(v, &places, &seen, wide_v);
                let mut in_order = [0usize; TILE];
                for (key, place) in in_order.iter_mut().enumerate() {
                    *place = key * dim;
                }
                queries::<S, f32>(job, task, tile, Keys { k: wide_k, v: wide_v, places: &in_order, dim }, scratch);
                scratch.wide = wide;
            }
        }
        tile += TILE;
    }
    let mut i = 0;
    for token in task.tokens.clone() {
        for head in task.heads.clone() {
            // SAFETY: this token and head belong to this task alone.
            let out = unsafe { job.out.slice((token * job.heads + head) * dim, dim) };
            for (out, acc) in out.iter_mut().zip(&scratch.acc[i * dim..]) {
                *out = acc / scratch.sum[i];
            }
            i += 1;
        }
    }
}

/// The part of positions `from..to` that lies in a tile, counted from the tile's start.
fn inside(tile: usize, from: usize, to: usize) -> Range<usize> {
    let to = to.clamp(tile, tile + TILE) - tile;
    (from.max(tile) - tile).min(to)..to
}

fn begin(job: &Job<'_>, task: &Task, count: usize, scratch: &mut Scratch) {
    scratch.acc.clear();
    scratch.acc.resize(count * job.dim, 0.0);
    scratch.max.clear();
    scratch.sum.clear();
    for _ in task.tokens.clone() {
        for head in task.heads.clone() {
            // a sink has its share of the sum from the start
            scratch.max.push(job.sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[head]));
            scratch.sum.push(if job.sinks.is_some() { 1.0 } else { 0.0 });
        }
    }
}

/// All queries of a task against one tile, two at a time where they see the same.
#[inline(always)]
unsafe fn queries<S: Simd, E: Element>(job: &Job<'_>, task: &Task, tile: usize, keys: Keys<'_, E>, s: &mut Scratch) {
    let (dim, heads) = (job.dim, task.heads.len());
    let count = task.tokens.len() * heads;
    let score = Score { scale: job.how.scale, softcap: job.how.softcap };
    let of = |i: usize| (task.tokens.start + i / heads, task.heads.start + i % heads);
    let mut i = 0;
    while i < count {
        let (token, head) = of(i);
        let visible = job.visible(job.position(task, token), tile);
        let acc = &mut s.acc[i * dim..];
        if visible.iter().all(Range::is_empty) {
            i += 1;
            continue;
        }
        let pair =
            i + 1 < count && (i % heads + 1 < heads || job.visible(job.position(task, of(i + 1).0), tile) == visible);
        // SAFETY: passed on.
        unsafe {
            if pair {
                let (other_token, other_head) = of(i + 1);
                let q = [job.query(token, head), job.query(other_token, other_head)];
                let (first_max, second_max) = s.max[i..].split_at_mut(1);
                let (first_sum, second_sum) = s.sum[i..].split_at_mut(1);
                let (first_acc, second_acc) = acc.split_at_mut(dim);
                let states = [
                    State { max: &mut first_max[0], sum: &mut first_sum[0], acc: first_acc },
                    State { max: &mut second_max[0], sum: &mut second_sum[0], acc: &mut second_acc[..dim] },
                ];
                attend::<S, E, 2>(score, q, keys, &visible, states);
                i += 2;
            } else {
                let state = State { max: &mut s.max[i], sum: &mut s.sum[i], acc: &mut acc[..dim] };
                attend::<S, E, 1>(score, [job.query(token, head)], keys, &visible, [state]);
                i += 1;
            }
        }
    }
}
