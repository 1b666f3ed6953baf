//! The CPU version: online softmax (Milakov and Gimelshein, 2018) over tiles of keys, straight from the pool.
//!
//! Tiles are cut at absolute positions, and within one every sum has one order, so a query's result is the same whatever chunk,
//! batch or task it arrives in. A task is some tokens of one row for one key head (or a part of its query heads); each
//! tile is laid out for products once for all of them.

mod few;
mod outer;
mod pack;
mod softmax;
mod tile;

use std::cell::Cell;
use std::ops::Range;

use candle_core::Tensor;

use self::pack::{Element, Keys, Packed, TILE, Visible, pack};
use self::tile::{State, attend};
use super::{Attend, Pool, RowView};
use crate::simd::{Isa, for_isa};
use crate::threads::{self, SharedMut};
use crate::{Result, host};

/// Queries per task: the more, the less often a tile is laid out.
const QUERIES: usize = 192;
/// Numbers of weighted sums per task that stay close.
const ROOM: usize = 24 << 10;
/// Query tokens per task that are worth it where tasks are few.
const TOKENS: usize = 16;

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

/// Keys that are worked on together.
struct Tile {
    /// The first one's position.
    start: usize,
    /// Those that the task's tokens see between them.
    seen: Visible,
    /// Where each lies in the pool.
    places: [usize; TILE],
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
    packed: Packed,
    state: State,
}

impl Job<'_> {
    fn tasks(&self) -> Vec<Task> {
        let group = self.heads / self.kv_heads;
        let (work, threads) = (self.rows.tokens() * self.kv_heads, threads::threads());
        // Few tasks (decode with few rows): share a group's query heads out as well.
        let each = group.div_ceil(threads.div_ceil(work.max(1)));
        // Large tasks lay out fewer tiles, but every thread should have some.
        let most = (QUERIES.min(ROOM / self.dim.max(1)) / each).min(work / (4 * threads)).max(TOKENS);
        let mut tasks = Vec::new();
        for row in 0..self.rows.rows() {
            let (from, to) = (self.rows.starts[row] as usize, self.rows.starts[row + 1] as usize);
            let parts = (to - from).div_ceil(most);
            for part in 0..parts {
                let tokens = from + (to - from) * part / parts..from + (to - from) * (part + 1) / parts;
                for kv_head in 0..self.kv_heads {
                    for head in (0..group).step_by(each) {
                        let first = kv_head * group + head;
                        let heads = first..(first + each).min((kv_head + 1) * group);
                        tasks.push(Task { row, tokens: tokens.clone(), kv_head, heads });
                    }
                }
            }
        }
        tasks.reverse(); // the longest contexts first, so that no thread starts one last
        tasks
    }

    fn run<E: Element>(&self, isa: Isa, k: &[E], v: &[E], task: &Task) {
        // Taken out and put back rather than borrowed in a closure, which would be compiled without the instruction set.
        thread_local!(static SCRATCH: Cell<Scratch> = Cell::new(Scratch::default()));
        let mut scratch = SCRATCH.take();
        scratch.packed.resize(self.dim);
        scratch.state.begin(self, task);
        let mut next = self.tile_from(task, 0);
        while let Some(tile) = next {
            next = self.tile_from(task, tile.start + TILE);
            let keys = Keys { k, v, places: &tile.places, dim: self.dim };
            keys.check();
            let ahead = next.as_ref().map_or(&tile.places, |next| &next.places);
            let Scratch { packed, state } = &mut scratch;
            state.visible.clear();
            state.visible.extend(task.tokens.clone().map(|token| self.visible(self.position(task, token), tile.start)));
            let (job, keys, seen) = (self, &keys, &tile.seen);
            if few::is_few(task) {
                let room = (&mut *packed, &mut *state);
                use few::attend;
                for_isa!(isa, attend::<E: Element>(
                    job: &Job<'_>,
                    task: &Task,
                    keys: &Keys<'_, E>,
                    ahead: &[usize; TILE],
                    room: (&mut Packed, &mut State),
                ));
                continue;
            }
            for_isa!(isa, pack::<E: Element>(
                keys: &Keys<'_, E>,
                seen: &Visible,
                ahead: &[usize; TILE],
                packed: &mut Packed,
            ));
            let packed = &*packed;
            for_isa!(isa, attend::<>(job: &Job<'_>, task: &Task, packed: &Packed, state: &mut State));
        }
        self.finish(task, &scratch.state);
        SCRATCH.set(scratch);
    }

    /// The first tile from `start` on of which one of the task's tokens sees a key.
    fn tile_from(&self, task: &Task, mut start: usize) -> Option<Tile> {
        let (first, last) = (self.position(task, task.tokens.start), self.position(task, task.tokens.end - 1));
        let reach = self.how.reach;
        // a later token keeps no less, and the windows together go from the first one's start to the last one's end
        let mut kept = inside(start, 0, reach.kept(last));
        if kept.is_empty() {
            start = start.max(reach.first_visible(first) / TILE * TILE); // between what is kept and the window
            kept = inside(start, 0, reach.kept(last));
        }
        (start <= last).then(|| {
            let window = inside(start, reach.first_visible(first).max(start + kept.end), last + 1);
            let seen = [kept, window];
            Tile { start, places: self.places(task, start, &seen), seen }
        })
    }

    /// Sums of values to their means.
    fn finish(&self, task: &Task, state: &State) {
        let mut i = 0;
        for token in task.tokens.clone() {
            for head in task.heads.clone() {
                // SAFETY: this token and head belong to this task alone.
                let out = unsafe { self.out.slice((token * self.heads + head) * self.dim, self.dim) };
                for (out, acc) in out.iter_mut().zip(&state.acc[i * state.width..]) {
                    *out = acc / state.sum[i];
                }
                i += 1;
            }
        }
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

    /// Where the keys of a tile lie that the task's tokens see between them. Others may be forgotten and are not asked for:
    /// they get the place of one that is seen.
    fn places(&self, task: &Task, tile: usize, seen: &Visible) -> [usize; TILE] {
        let width = self.kv_heads * self.dim;
        let place = |pos| self.rows.slot(task.row, pos, self.block) * width + task.kv_head * self.dim;
        let some = seen.iter().find(|range| !range.is_empty()).expect("a tile is entered for a key that is seen");
        let mut places = [place(tile + some.start); TILE];
        for range in seen {
            let mut pos = tile + range.start;
            while pos < tile + range.end {
                let to = (pos / self.block + 1) * self.block;
                let mut place = place(pos);
                for key in pos..to.min(tile + range.end) {
                    places[key - tile] = place;
                    place += width;
                }
                pos = to;
            }
        }
        places
    }

    fn query(&self, token: usize, head: usize) -> &[f32] {
        &self.q[token * self.stride + head * self.dim..][..self.dim]
    }
}

/// The part of positions `from..to` that lies in a tile, counted from the tile's start.
fn inside(tile: usize, from: usize, to: usize) -> Range<usize> {
    let to = to.clamp(tile, tile + TILE) - tile;
    (from.max(tile) - tile).min(to)..to
}
