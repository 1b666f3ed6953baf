//! Embed, blocks, norm, head.
//!
//! There is one transformer. What differs between models is in its `Spec`, and each block has read its part of it; nothing
//! here asks which model it is.

use candle_core::Tensor;
use omlx_kv::{Batch, KvCache, KvLayout, KvStore, Result};
use omlx_ops::{Experts, Linear, Rope, RopeSpec, rms_norm};

use crate::block::{Block, Stream};
use crate::spec::{FfnSpec, LayerSpec, Spec};
use crate::weights::{Matrix, Part, Weights};
use crate::{Error, Model};

/// A decoder model with its weights.
#[derive(Debug)]
pub struct Transformer {
    spec: Spec,
    layout: KvLayout,
    embed: Linear,
    /// Different rotations of the model's layers; most models have one.
    ropes: Vec<Rope>,
    blocks: Vec<Block>,
    last_norm: Tensor,
    /// None: the embedding is the head.
    head: Option<Linear>,
}

impl Transformer {
    /// Takes every tensor that the spec has a place for.
    ///
    /// # Errors
    /// When one is absent, of another shape, or of a type that does not load.
    pub fn new(spec: Spec, weights: &mut Weights, kv: candle_core::DType) -> crate::Result<Self> {
        let table = Matrix { rows: spec.vocab, cols: spec.hidden, bias: false, heads: 1 };
        let embed = weights.linear(Part::Embed.once(), table)?;
        let mut known = Vec::new();
        for rope in spec.layers.iter().filter_map(|layer| layer.attn.rope.as_ref()) {
            if !known.contains(&rope) {
                known.push(rope);
            }
        }
        let file = weights.config().file().to_owned();
        let rope = |rope: &&RopeSpec| {
            Rope::new((*rope).clone()).map_err(|source| Error::Rope { file: file.clone(), source: Box::new(source) })
        };
        let ropes = known.iter().map(rope).collect::<crate::Result<_>>()?;
        let block = |(index, layer): (usize, &LayerSpec)| {
            let rope = known.iter().position(|r| Some(*r) == layer.attn.rope.as_ref());
            Block::new(index, layer, spec.hidden, rope, weights)
        };
        let blocks = spec.layers.iter().enumerate().map(block).collect::<crate::Result<_>>()?;
        let last_norm = weights.norm(Part::LastNorm.once(), spec.hidden)?;
        let head = match spec.head.tied {
            true => None,
            false => Some(weights.linear(Part::Head.once(), table)?),
        };
        let layout = spec.layout(kv);
        Ok(Self { spec, layout, embed, ropes, blocks, last_norm, head })
    }

    /// From now on [`layout`](Model::layout) says that keys and values are stored this way. For before a cache is made.
    pub fn store(&mut self, how: &KvStore) {
        self.layout = how.apply(std::mem::take(&mut self.layout));
    }

    /// The experts of the layers that have some.
    pub fn experts(&self) -> impl Iterator<Item = &Experts> {
        self.blocks.iter().filter_map(Block::experts)
    }

    /// The values this model was built from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// `forward`, showing the residual stream `[T, hidden]` to `tap` after the embedding and after each layer.
    ///
    /// # Errors
    /// When the device or the tap fails.
    pub fn forward_tapped(
        &self,
        batch: &Batch,
        kv: &KvCache,
        tap: &mut dyn FnMut(usize, &Tensor) -> candle_core::Result<()>,
    ) -> Result<Tensor> {
        self.run(batch, kv, &mut |layer, stream| Ok(tap(layer, &stream.sum()?)?))
    }

    fn run(&self, batch: &Batch, kv: &KvCache, tap: &mut dyn FnMut(usize, &Stream) -> Result<()>) -> Result<Tensor> {
        let ropes: Vec<_> = self.ropes.iter().map(|rope| rope.at(&batch.positions)).collect();
        let mut x = self.embed.gather(&batch.tokens)?; // [T, hidden]
        if self.spec.embed_scale != 1.0 {
            x = (x * f64::from(self.spec.embed_scale))?;
        }
        let mut stream = Stream { x, plus: None };
        tap(0, &stream)?;
        for (layer, block) in self.blocks.iter().enumerate() {
            stream = block.forward(&stream, block.rope.map(|rope| &ropes[rope]), &kv.layer(layer, batch))?;
            tap(layer + 1, &stream)?;
        }
        self.logits(&stream, batch)
    }

    /// Only the wanted rows see the vocabulary: it is the widest matrix of the model.
    fn logits(&self, stream: &Stream, batch: &Batch) -> Result<Tensor> {
        let (dtype, device) = (stream.x.dtype(), stream.x.device());
        if batch.wanted.is_empty() {
            return Ok(Tensor::zeros((0, self.spec.vocab), dtype, device)?);
        }
        let wanted = Tensor::new(batch.wanted.as_slice(), device)?;
        let x = stream.rows(&wanted)?.sum()?; // [R, hidden]
        let x = rms_norm(&x, &self.last_norm, self.spec.head.eps)?;
        let logits = self.head.as_ref().unwrap_or(&self.embed).forward(&x)?; // [R, vocab]
        match self.spec.head.softcap {
            Some(cap) => Ok(((logits / f64::from(cap))?.tanh()? * f64::from(cap))?),
            None => Ok(logits),
        }
    }
}

impl Model for Transformer {
    fn layout(&self) -> &KvLayout {
        &self.layout
    }

    fn forward(&self, batch: &Batch, kv: &KvCache) -> candle_core::Result<Tensor> {
        Ok(self.run(batch, kv, &mut |_, _| Ok(()))?)
    }

    fn vocab(&self) -> usize {
        self.spec.vocab
    }

    fn context(&self) -> usize {
        self.spec.context
    }

    fn depth(&self) -> usize {
        self.spec.depth()
    }

    /// At its widest place a step holds the residual stream before and after, its norm and what is added; and what attention or feed-forward
    /// make of it, twice (before and after rotation or activation). Then logits, as they come and squashed.
    fn step_bytes(&self, tokens: usize, wanted: usize) -> u64 {
        let widths = self.spec.layers.iter().map(|layer| {
            let heads = layer.attn.q_heads + 2 * layer.attn.kv_heads;
            // Tokens on their way through experts are copied once for each, going in and coming out.
            let copies = if let FfnSpec::Moe(moe) = layer.ffn { moe.router.top * self.spec.hidden } else { 0 };
            (heads * layer.attn.dim).max(2 * layer.ffn.active_width() + copies)
        });
        let floats = tokens * (4 * self.spec.hidden + 2 * widths.max().unwrap_or(0)) + 2 * wanted * self.spec.vocab;
        4 * floats as u64 // f32
    }
}
