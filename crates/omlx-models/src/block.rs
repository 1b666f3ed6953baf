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

    pub(crate) fn forward(&self, stream: &Stream, rope: &RopeTable, kv: &LayerKv<'_>) -> Result<Stream> {
        let (x, h) = stream.normed(&self.before_attn)?;
        let h = self.attn.forward(&h, rope, kv)?;
        let (x, h) = self.before_ffn.forward_sum(&x, &after(self.after_attn.as_ref(), h)?)?;
        let h = after(self.after_ffn.as_ref(), self.ffn.forward(&h)?)?;
        Ok(Stream { x, plus: Some(h) })
    }
}

/// The residual stream `[T, hidden]`. What the last sub-layer adds is still apart from it: the norm that comes next adds it on
/// its way, and saves a pass over both.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) x: Tensor,
    pub(crate) plus: Option<Tensor>,
}

impl Stream {
    /// The sum and its norm.
    fn normed(&self, norm: &Norm) -> Result<(Tensor, Tensor)> {
        match &self.plus {
            Some(plus) => norm.forward_sum(&self.x, plus),
            None => Ok((self.x.clone(), norm.forward(&self.x)?)),
        }
    }

    /// The sum.
    pub(crate) fn sum(&self) -> Result<Tensor> {
        match &self.plus {
            Some(plus) => Ok((&self.x + plus)?),
            None => Ok(self.x.clone()),
        }
    }

    /// Some rows.
    pub(crate) fn rows(&self, rows: &Tensor) -> Result<Self> {
        let pick = |x: &Tensor| x.index_select(rows, 0);
        Ok(Self { x: pick(&self.x)?, plus: self.plus.as_ref().map(pick).transpose()? })
    }
}

fn after(norm: Option<&Norm>, h: Tensor) -> Result<Tensor> {
    match norm {
        Some(norm) => norm.forward(&h),
        None => Ok(h),
    }
}
