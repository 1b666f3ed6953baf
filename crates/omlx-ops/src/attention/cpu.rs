//! The CPU version: online softmax (Milakov and Gimelshein, 2018) over tiles of keys, straight from the pool.
//!
//! Tiles are cut at absolute positions, and within one every sum has one order, so a query's result is the same whatever chunk,
//! batch or task it arrives in. A task is some tokens of one row for one key head (or a part of its query heads); each
//! tile is laid out for products once for all of them.

mod codes;
mod few;
mod outer;
mod pack;
mod pools;
mod softmax;
mod spans;
mod tile;

use std::cell::Cell;
use std::ops::Range;

use candle_core::Tensor;

use self::codes::Codes;
use self::pack::{Packed, TILE, Visible};
use self::pools::{Floats, Pools, Unit, few_tile, pack_tile};
use self::tile::{State, attend};
use super::{Attend, CodedPool, Pool, RowView};
use crate::coded::parts;
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
    let (_, heads, dim) = q.dims3()?;
    let queries = host::rows(q, "attention", "q")?;
    let sinks = how.sinks.as_ref().map(|s| host::rows(s, "attention", "sinks")).transpose()?;
    let (k, k_layout) = pool.k.storage_and_layout();
    let (v, v_layout) = pool.v.storage_and_layout();
    let k = host::Floats::of(&k, k_layout.start_offset(), "attention")?;
    let v = host::Floats::of(&v, v_layout.start_offset(), "attention")?;
    let kv_heads = pool.k.dim(1)?;
    let mut out = vec![0f32; rows.tokens() * heads * dim];
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
    match (&k, &v) {
        (host::Floats::F32(k), host::Floats::F32(v)) => job.all(isa, &Floats { k, v, dim }),
        (host::Floats::F16(k), host::Floats::F16(v)) => job.all(isa, &Floats { k, v, dim }),
        (host::Floats::Bf16(k), host::Floats::Bf16(v)) => job.all(isa, &Floats { k, v, dim }),
        _ => unreachable!("`attention` checked that both pools have one type"),
    }
    host::tensor(out, (rows.tokens(), heads, dim))
}

pub(super) fn coded(q: &Tensor, pool: CodedPool<'_>, rows: &RowView, how: &Attend) -> Result<Tensor> {
    coded_with(Isa::best(), q, pool, rows, how)
}

/// In rotated space: queries are rotated as keys were, sums of values are turned back at the end.
pub(super) fn coded_with(isa: Isa, q: &Tensor, pool: CodedPool<'_>, rows: &RowView, how: &Attend) -> Result<Tensor> {
    let (tokens, heads, dim) = q.dims3()?;
    let sinks = how.sinks.as_ref().map(|s| host::rows(s, "attention", "sinks")).transpose()?;
    let queries = codes::rotated(isa, &host::rows(q, "attention", "q")?, &pool.k.coding.rotation);
    let (k_codes, k_scales) = (pool.k.codes.storage_and_layout(), pool.k.scales.storage_and_layout());
    let (v_codes, v_scales) = (pool.v.codes.storage_and_layout(), pool.v.scales.storage_and_layout());
    let start = |layout: &candle_core::Layout| layout.start_offset();
    let k = parts((&k_codes.0, start(k_codes.1)), (&k_scales.0, start(k_scales.1)));
    let v = parts((&v_codes.0, start(v_codes.1)), (&v_scales.0, start(v_scales.1)));
    let mut out = vec![0f32; tokens * heads * dim];
    let job = Job {
        q: &queries,
        stride: heads * dim,
        out: SharedMut::new(&mut out),
        rows,
        how,
        sinks: sinks.as_ref().map(|s| s.as_slice()),
        block: pool.block,
        heads,
        kv_heads: pool.k.codes.dim(1)?,
        dim,
    };
    job.all(isa, &Codes::new((k, pool.k.coding), (v, pool.v.coding)));
    host::tensor(out, (tokens, heads, dim))
}

/// Some tokens of a row, some query heads that share a key head.
struct Task {
    row: usize,
    tokens: Range<usize>,
    kv_head: usize,
    heads: Range<usize>,
    /// The positions of the keys: all, or a span of them.
    keys: Range<usize>,
}

impl Task {
    fn queries(&self) -> usize {
        self.tokens.len() * self.heads.len()
    }
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

/// A tile, and where the keys of the next one lie.
type Tiles<'a> = (&'a Tile, &'a [usize; TILE]);

/// Lends the thread's buffers. Nothing in `work` may be compiled for an instruction set: that is what `for_isa` inside it is for.
fn with_scratch(work: impl FnOnce(&mut Scratch)) {
    thread_local!(static SCRATCH: Cell<Scratch> = Cell::new(Scratch::default()));
    let mut scratch = SCRATCH.take();
    work(&mut scratch);
    SCRATCH.set(scratch);
}

/// A thread's buffers, kept between tasks.
#[derive(Default)]
struct Scratch {
    packed: Packed,
    state: State,
}

impl Job<'_> {
    fn tasks<P: Pools>(&self) -> Vec<Task> {
        let group = self.heads / self.kv_heads;
        let (work, threads) = (self.rows.tokens() * self.kv_heads, threads::threads());
        // Few tasks (decode with few rows): share a group's query heads out as well, where keys are not.
        let shares = if P::SPAN.is_some() { 1 } else { threads.div_ceil(work.max(1)) };
        let each = group.div_ceil(shares);
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
                        let (tokens, keys) = (tokens.clone(), 0..usize::MAX);
                        tasks.push(Task { row, tokens, kv_head, heads, keys });
                    }
                }
            }
        }
        tasks.reverse(); // the longest contexts first, so that no thread starts one last
        tasks
    }

    /// All tasks, spread over the threads.
    fn all<P: Pools>(&self, isa: Isa, pools: &P) {
        let tasks = self.tasks::<P>();
        if tasks.len() < 4 * threads::threads()
            && let Some((pieces, numbers)) = P::SPAN.and_then(|span| self.pieces::<P>(&tasks, span))
        {
            return self.in_pieces(isa, pools, &tasks, (&pieces, numbers));
        }
        threads::for_each(tasks.len(), |task| {
            let task = &tasks[task];
            with_scratch(|scratch| {
                scratch.state.begin(self, task, true);
                if P::SPAN.is_some() {
                    scratch.state.begin_total();
                }
                self.run(isa, pools, task, scratch);
                if P::SPAN.is_some() {
                    scratch.state.end_span();
                    scratch.state.swap_total();
                }
                self.finish(isa, pools, task, &scratch.state);
            });
        });
    }

    /// All tiles of a task onto its state, span by span where there are spans.
    fn run<P: Pools>(&self, isa: Isa, pools: &P, task: &Task, scratch: &mut Scratch) {
        scratch.packed.resize(self.dim);
        let mut next = self.tile_from::<P>(task, task.keys.start);
        while let Some(tile) = next {
            next = self.tile_from::<P>(task, tile.start + TILE);
            pools.check(&tile);
            let ahead = next.as_ref().map_or(&tile.places, |next| &next.places);
            let Scratch { packed, state } = &mut *scratch;
            state.visible.clear();
            state.visible.extend(task.tokens.clone().map(|token| self.visible(self.position(task, token), tile.start)));
            self.tile(isa, pools, task, ((&tile, ahead), (packed, state)));
            if let (Some(span), Some(next)) = (P::SPAN, &next)
                && next.start / span != tile.start / span
            {
                state.end_span();
            }
        }
    }

    /// One tile.
    fn tile<P: Pools>(&self, isa: Isa, pools: &P, task: &Task, (tiles, room): (Tiles<'_>, (&mut Packed, &mut State))) {
        let job = self;
        if few::is_few(task) {
            for_isa!(isa, few_tile::<P: Pools>(
                pools: &P,
                job: &Job<'_>,
                task: &Task,
                tiles: Tiles<'_>,
                room: (&mut Packed, &mut State),
            ));
            return;
        }
        let (packed, state) = room;
        let room = (&mut *packed, &mut *state);
        for_isa!(isa, pack_tile::<P: Pools>(pools: &P, tiles: Tiles<'_>, room: (&mut Packed, &mut State)));
        let packed = &*packed;
        for_isa!(isa, attend::<>(job: &Job<'_>, task: &Task, packed: &Packed, state: &mut State));
    }

    /// The first tile from `start` on of which one of the task's tokens sees a key.
    fn tile_from<P: Pools>(&self, task: &Task, mut start: usize) -> Option<Tile> {
        let (first, last) = (self.position(task, task.tokens.start), self.position(task, task.tokens.end - 1));
        let reach = self.how.reach;
        // a later token keeps no less, and the windows together go from the first one's start to the last one's end
        let mut kept = inside(start, 0, reach.kept(last));
        if kept.is_empty() {
            start = start.max(reach.first_visible(first) / TILE * TILE); // between what is kept and the window
            kept = inside(start, 0, reach.kept(last));
        }
        (start <= last && start < task.keys.end).then(|| {
            let window = inside(start, reach.first_visible(first).max(start + kept.end), last + 1);
            let seen = [kept, window];
            Tile { start, places: self.places::<P>(task, start, &seen), seen }
        })
    }

    /// Sums of values to their means.
    fn finish<P: Pools>(&self, isa: Isa, pools: &P, task: &Task, state: &State) {
        let mut i = 0;
        for token in task.tokens.clone() {
            for head in task.heads.clone() {
                // SAFETY: this token and head belong to this task alone.
                let out = unsafe { self.out.slice((token * self.heads + head) * self.dim, self.dim) };
                pools.finish(isa, &state.acc[i * state.width..][..state.width], state.sum[i], out);
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
    fn places<P: Pools>(&self, task: &Task, tile: usize, seen: &Visible) -> [usize; TILE] {
        let unit = if P::UNIT == Unit::Head { self.dim } else { 1 };
        let width = self.kv_heads * unit;
        let place = |pos| self.rows.slot(task.row, pos, self.block) * width + task.kv_head * unit;
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
