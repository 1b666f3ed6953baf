//! Norm, attention, norm, feed-forward; each added to the residual stream.

use candle_core::Tensor;
use omlx_kv::{LayerKv, Result};
use omlx_ops::{RopeTable, add_rms_norm, rms_norm};

use crate::attention::Attention;
use crate::ffn::Ffn;
use crate::spec::{LayerSpec, Norms, Place};
use crate::weights::{Part, Weights};

/// One layer.
#[derive(Debug)]
pub(crate) struct Block {
    /// Which of the model's rotations this layer uses.
    pub(crate) rope: usize,
    before_attn: Norm,
    attn: Attention,
    after_attn: Option<Norm>,
    before_ffn: Norm,
    ffn: Ffn,
    after_ffn: Option<Norm>,
}

/// An RMS norm; its weight is f32 `[width]`.
#[derive(Debug)]
pub(crate) struct Norm {
    weight: Tensor,
    eps: f32,
}

impl Norm {
    pub(crate) fn new(weight: Tensor, eps: f32) -> Self {
        Self { weight, eps }
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(rms_norm(x, &self.weight, self.eps)?)
    }

    /// `x + y`, and its norm: one pass over both.
    fn forward_sum(&self, x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
        Ok(add_rms_norm(x, y, &self.weight, self.eps)?)
    }
}

impl Block {
    pub(crate) fn new(
        layer: usize,
        spec: &LayerSpec,
        hidden: usize,
        rope: usize,
        weights: &mut Weights,
    ) -> crate::Result<Self> {
        let Norms { place, eps } = spec.norms;
        let norm = |weights: &mut Weights, part: Part| -> crate::Result<Norm> {
            Ok(Norm::new(weights.norm(part.of(layer), hidden)?, eps))
        };
        let after_norm = |weights: &mut Weights, part| match place {
            Place::Before => Ok(None),
            Place::BeforeAndAfter => norm(weights, part).map(Some),
        };
        Ok(Self {
            rope,
            before_attn: norm(weights, Part::BeforeAttn)?,
            attn: Attention::new(layer, &spec.attn, eps, hidden, weights)?,
            after_attn: after_norm(weights, Part::AfterAttn)?,
            before_ffn: norm(weights, Part::BeforeFfn)?,
            ffn: Ffn::new(layer, &spec.ffn, hidden, weights)?,
            after_ffn: after_norm(weights, Part::AfterFfn)?,
        })
    }

    /// x `[T, hidden]`, the residual stream.
    pub(crate) fn forward(&self, x: &Tensor, rope: &RopeTable, kv: &LayerKv<'_>) -> Result<Tensor> {
        let h = self.attn.forward(&self.before_attn.forward(x)?, rope, kv)?;
        let (x, h) = self.before_ffn.forward_sum(x, &after(self.after_attn.as_ref(), h)?)?;
        let h = after(self.after_ffn.as_ref(), self.ffn.forward(&h)?)?;
        Ok((x + h)?)
    }
}

fn after(norm: Option<&Norm>, h: Tensor) -> Result<Tensor> {
    match norm {
        Some(norm) => norm.forward(&h),
        None => Ok(h),
    }
}
