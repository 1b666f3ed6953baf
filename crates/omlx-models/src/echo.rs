//! A fake model that checks the cache: no weights, exact equality.
//!
//! Each layer writes (state, position) of every token as its key and value, reads everything the token may see back through
//! the block tables, and folds it into the token's next state. The state after the last layer names the next token. A wrong
//! slot, a stale block, a lost token or a window off by one changes a state and, by way of the next layer, every later
//! answer. `answer` computes the same from the tokens alone.

use std::ops::Range;

use candle_core::{DType, Result, Tensor};
use omlx_kv::{Batch, Codec, KvCache, KvGroup, KvLayout, LayerKv};
use omlx_ops::{Reach, RowView};

use crate::Model;

/// States fit in an f32 exactly.
const STATE_BITS: u32 = 24;
/// Far above the others', so that sampling at any usual temperature picks it too.
const CERTAIN: f32 = 100.0;

/// See the module's caption.
#[derive(Clone, Debug)]
pub struct EchoModel {
    reaches: Vec<Reach>,
    layout: KvLayout,
    vocab: usize,
    context: usize,
}

impl EchoModel {
    /// A model with one layer per reach; layers of the same reach share a group.
    ///
    /// # Panics
    /// When there is no layer, or a token id or position would not fit in an f32.
    pub fn new(reaches: &[Reach], vocab: usize, context: usize) -> Self {
        assert!(!reaches.is_empty() && vocab > 0 && vocab <= 1 << STATE_BITS && context <= 1 << STATE_BITS);
        let mut groups: Vec<KvGroup> = Vec::new();
        for (layer, reach) in reaches.iter().enumerate() {
            match groups.iter_mut().find(|g| g.reach == *reach) {
                Some(group) => group.layers.push(layer),
                None => groups.push(KvGroup {
                    layers: vec![layer],
                    heads: 1,
                    dim: 2,
                    reach: *reach,
                    codec: Codec::Plain(DType::F32),
                }),
            }
        }
        Self { reaches: reaches.to_vec(), layout: KvLayout { groups }, vocab, context }
    }

    /// The token that follows `tokens`, from their ids and places alone.
    pub fn answer(&self, tokens: &[u32]) -> u32 {
        let mut states = tokens.to_vec();
        for (layer, reach) in self.reaches.iter().enumerate() {
            let seen = |pos: usize| (0..=pos).filter(move |at| reach.sees(pos, *at)).map(|at| (states[at], at as u32));
            let next = |pos| state(seen(pos).fold(seed(layer), |sum, (s, at)| fold(fold(sum, s, at), s, at)));
            states = (0..tokens.len()).map(next).collect();
        }
        states.last().map_or(0, |state| state % self.vocab as u32)
    }

    /// States after one layer, read back from the cache.
    fn layer(&self, layer: usize, states: &[u32], batch: &Batch, kv: &LayerKv<'_>) -> Result<Vec<u32>> {
        write(states, &batch.positions, kv)?;
        let group = self.layout.groups.iter().position(|g| g.layers.contains(&layer));
        let (view, reach) = (&batch.views[group.unwrap_or(0)], self.reaches[layer]);
        let mut next = Vec::with_capacity(states.len());
        for row in 0..view.lens.len() {
            let positions = &batch.positions[batch.starts[row] as usize..batch.starts[row + 1] as usize];
            let Some(first) = positions.first() else { continue };
            let (from, last) = (reach.first_visible(*first as usize), positions[positions.len() - 1] as usize);
            let starts = read(view, row, 0..reach.kept(last).min(from), kv)?;
            let stored = read(view, row, from..view.lens[row] as usize, kv)?;
            // Tokens that see from the same place on continue one sum; a window starts a new one for each.
            let (mut sum, mut begin, mut end) = (seed(layer), usize::MAX, from);
            for pos in positions.iter().map(|p| *p as usize) {
                let visible = reach.first_visible(pos);
                if visible != begin {
                    // What is kept comes first; of it, some may lie in this step's part of the row.
                    let kept = starts.iter().chain(&stored).take(reach.kept(pos));
                    (sum, begin, end) = (kept.fold(seed(layer), whole), visible, visible);
                }
                // A position beyond the row's end is a fault of the caller's, to show as a wrong answer.
                sum = stored.iter().take(pos + 1 - from).skip(end - from).fold(sum, whole);
                end = pos + 1;
                next.push(state(sum));
            }
        }
        Ok(next)
    }
}

impl Model for EchoModel {
    fn layout(&self) -> &KvLayout {
        &self.layout
    }

    fn forward(&self, batch: &Batch, kv: &KvCache) -> Result<Tensor> {
        let mut states = batch.tokens.clone();
        for layer in 0..self.reaches.len() {
            states = self.layer(layer, &states, batch, &kv.layer(layer, batch))?;
        }
        let mut logits = vec![0f32; batch.wanted.len() * self.vocab];
        for (row, place) in batch.wanted.iter().enumerate() {
            let id = states[*place as usize] as usize % self.vocab;
            logits[row * self.vocab + id] = CERTAIN;
        }
        Tensor::from_vec(logits, (batch.wanted.len(), self.vocab), &candle_core::Device::Cpu) // [R, vocab]
    }

    fn vocab(&self) -> usize {
        self.vocab
    }

    fn context(&self) -> usize {
        self.context
    }
}

/// Keys (state, position) and values (position, state), so that one in place of the other shows.
fn write(states: &[u32], positions: &[u32], kv: &LayerKv<'_>) -> Result<()> {
    let pairs = |a: &[u32], b: &[u32]| {
        let flat: Vec<f32> = a.iter().zip(b).flat_map(|(a, b)| [*a as f32, *b as f32]).collect();
        Tensor::from_vec(flat, (a.len(), 1, 2), &candle_core::Device::Cpu) // [T, 1, 2]
    };
    Ok(kv.write(&pairs(states, positions)?, &pairs(positions, states)?)?)
}

/// What the tables say lies at these positions: (key state, key position, value position, value state).
fn read(view: &RowView, row: usize, positions: Range<usize>, kv: &LayerKv<'_>) -> Result<Vec<[u32; 4]>> {
    if positions.is_empty() {
        return Ok(Vec::new());
    }
    let block = kv.block();
    let table = &view.tables[row * view.width..][..view.width];
    let slot = |pos: usize| {
        let gap = if pos / block < view.kept as usize { 0 } else { view.forgotten[row] as usize };
        let place = pos / block - gap;
        table[place] * block as u32 + (pos % block) as u32
    };
    let slots: Vec<u32> = positions.map(slot).collect();
    let (k, v) = kv.read(&slots)?; // [N, 1, 2] each
    let (k, v) = (k.flatten_all()?.to_vec1::<f32>()?, v.flatten_all()?.to_vec1::<f32>()?);
    let quad = |(k, v): (&[f32], &[f32])| [k[0] as u32, k[1] as u32, v[0] as u32, v[1] as u32];
    Ok(k.chunks_exact(2).zip(v.chunks_exact(2)).map(quad).collect())
}

fn seed(layer: usize) -> u64 {
    0x6f6d_6c78 + layer as u64
}

/// A key and a value onto the sum.
fn whole(sum: u64, [k_state, k_pos, v_pos, v_state]: &[u32; 4]) -> u64 {
    fold(fold(sum, *k_state, *k_pos), *v_state, *v_pos)
}

/// One step of SplitMix64 over the sum and what was read.
fn fold(sum: u64, state: u32, position: u32) -> u64 {
    let mut z = (sum ^ (u64::from(state) << 32 | u64::from(position))).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn state(sum: u64) -> u32 {
    (sum >> (64 - STATE_BITS)) as u32
}

#[cfg(test)]
mod tests;
