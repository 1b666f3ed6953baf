//! What keys and values are stored as: how a tile of them becomes numbers, and sums of weighted values results.

use super::pack::{Element, Keys, Packed, TILE, pack};
use super::tile::State;
use super::{Job, Task, Tile, Tiles, few};
use crate::simd::codes::Lookup;
use crate::simd::sixteen::Sixteen;
use crate::simd::{Isa, Simd};

/// Keys and values of one layer.
pub(super) trait Pools: Sync {
    /// Keys that are gone over by themselves, cut at multiples of it and then joined in order, so that threads can share a long row
    /// out without changing its result. A multiple of [`TILE`].
    const SPAN: Option<usize>;
    /// In what places of keys are counted.
    const UNIT: Unit;

    /// Panics unless every key lies inside the pools.
    fn check(&self, tile: &Tile);
    /// Lays out the tile for products; keys at `ahead` are asked for.
    ///
    /// # Safety
    /// The instruction set of `S` exists, `check` was called, and the panels have the size of the head.
    unsafe fn pack<S: Simd + Sixteen + Lookup>(
        &self,
        tile: &Tile,
        ahead: &[usize; TILE],
        room: (&mut Packed, &mut State),
    );
    /// One tile onto the state of a task that [is few](few::is_few).
    ///
    /// # Safety
    /// As for `pack`, and `state` was begun for the task.
    unsafe fn few<S: Simd + Sixteen + Lookup>(
        &self,
        job: &Job<'_>,
        task: &Task,
        tiles: Tiles<'_>,
        room: (&mut Packed, &mut State),
    );
    /// Sums of weighted values to one query's result.
    fn finish(&self, isa: Isa, acc: &[f32], sum: f32, out: &mut [f32]);
}

/// What lies from one key head to the next.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unit {
    /// As many numbers as a head has.
    Head,
    /// One vector.
    Vector,
}

/// Pools of plain numbers.
pub(super) struct Floats<'a, E> {
    pub(super) k: &'a [E],
    pub(super) v: &'a [E],
    pub(super) dim: usize,
}

impl<E: Element> Floats<'_, E> {
    #[inline(always)]
    fn keys<'a>(&'a self, tile: &'a Tile) -> Keys<'a, E> {
        Keys { k: self.k, v: self.v, places: &tile.places, dim: self.dim }
    }
}

impl<E: Element> Pools for Floats<'_, E> {
    const SPAN: Option<usize> = None;
    const UNIT: Unit = Unit::Head;

    fn check(&self, tile: &Tile) {
        self.keys(tile).check();
    }
    #[inline(always)]
    unsafe fn pack<S: Simd + Sixteen + Lookup>(
        &self,
        tile: &Tile,
        ahead: &[usize; TILE],
        (packed, _): (&mut Packed, &mut State),
    ) {
        // SAFETY: passed on.
        unsafe { pack::<S, E>(&self.keys(tile), &tile.seen, ahead, packed) }
    }
    #[inline(always)]
    unsafe fn few<S: Simd + Sixteen + Lookup>(
        &self,
        job: &Job<'_>,
        task: &Task,
        (tile, ahead): Tiles<'_>,
        room: (&mut Packed, &mut State),
    ) {
        // SAFETY: passed on.
        unsafe { few::attend::<S, E>(job, task, &self.keys(tile), ahead, room) }
    }
    fn finish(&self, _: Isa, acc: &[f32], sum: f32, out: &mut [f32]) {
        for (out, acc) in out.iter_mut().zip(acc) {
            *out = acc / sum;
        }
    }
}

/// [`Pools::pack`], for `for_isa`.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn pack_tile<S: Simd + Sixteen + Lookup, P: Pools>(
    pools: &P,
    (tile, ahead): Tiles<'_>,
    room: (&mut Packed, &mut State),
) {
    // SAFETY: passed on.
    unsafe { pools.pack::<S>(tile, ahead, room) }
}

/// [`Pools::few`], for `for_isa`.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn few_tile<S: Simd + Sixteen + Lookup, P: Pools>(
    pools: &P,
    job: &Job<'_>,
    task: &Task,
    tiles: Tiles<'_>,
    room: (&mut Packed, &mut State),
) {
    // SAFETY: passed on.
    unsafe { pools.few::<S>(job, task, tiles, room) }
}
