//! The trait the engine sees.

use candle_core::{Result, Tensor};
use omlx_kv::{Batch, KvCache, KvLayout};

/// Something that turns a ragged batch and a cache into logits.
pub trait Model: Send {
    /// What the cache must hold.
    fn layout(&self) -> &KvLayout;
    /// Logits for `batch.wanted`: `[R, vocab]` in f32. Writes the keys and values of every token of the batch.
    ///
    /// # Errors
    /// When the device fails; what the cache holds for the batch's tokens is then undefined.
    fn forward(&self, batch: &Batch, kv: &KvCache) -> Result<Tensor>;
    /// Number of token ids.
    fn vocab(&self) -> usize;
    /// Longest sequence in tokens.
    fn context(&self) -> usize;
    /// Positions back that cost as much to look at as all else that is done for a token; `usize::MAX` if looking back is free.
    fn depth(&self) -> usize {
        usize::MAX
    }
    /// About how many bytes a step of `tokens` tokens, `wanted` of them with logits, takes besides weights and cache.
    fn step_bytes(&self, tokens: usize, wanted: usize) -> u64 {
        (tokens.max(wanted) * 4 + wanted * self.vocab() * 4) as u64
    }
}
