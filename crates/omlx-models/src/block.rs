//! Norm, attention, norm, feed-forward; each added to the residual stream.

use candle_core::Tensor;
use omlx_kv::{LayerKv, Result};
use omlx_ops::{Experts, RopeTable, add_rms_norm, rms_norm};

use crate::attention::Attention;
use crate::ffn::Ffn;
use crate::spec::{LayerSpec, Norms, Place};
use crate::weights::{Part, Weights};

/// One layer.
#[derive(Debug)]
pub(crate) struct Block {
    /// Which of the model's rotations this layer uses, if any.
    pub(crate) rope: Option<usize>,
    before_attn: Option<Norm>,
    attn: Attention,
    after_attn: Option<Norm>,
    before_ffn: Option<Norm>,
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
        rope: Option<usize>,
        weights: &mut Weights,
    ) -> crate::Result<Self> {
        let Norms { place, eps } = spec.norms;
        let (before, after) = (place != Place::After, place != Place::Before);
        let norm = |weights: &mut Weights, part: Part, there: bool| -> crate::Result<Option<Norm>> {
            there.then(|| Ok(Norm::new(weights.norm(part.of(layer), hidden)?, eps))).transpose()
        };
        Ok(Self {
            rope,
            before_attn: norm(weights, Part::BeforeAttn, before)?,
            attn: Attention::new(layer, &spec.attn, eps, hidden, weights)?,
            after_attn: norm(weights, Part::AfterAttn, after)?,
            before_ffn: norm(weights, Part::BeforeFfn, before)?,
            ffn: Ffn::new(layer, &spec.ffn, hidden, weights)?,
            after_ffn: norm(weights, Part::AfterFfn, after)?,
        })
    }

    pub(crate) fn experts(&self) -> Option<&Experts> {
        self.ffn.experts()
    }

    pub(crate) fn forward(&self, stream: &Stream, rope: Option<&RopeTable>, kv: &LayerKv<'_>) -> Result<Stream> {
        let (x, h) = stream.normed(self.before_attn.as_ref())?;
        let h = after(self.after_attn.as_ref(), self.attn.forward(&h, rope, kv)?)?;
        let (x, h) = Stream { x, plus: Some(h) }.normed(self.before_ffn.as_ref())?;
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
    /// The sum, and its norm where there is one.
    fn normed(&self, norm: Option<&Norm>) -> Result<(Tensor, Tensor)> {
        match (norm, &self.plus) {
            (Some(norm), Some(plus)) => norm.forward_sum(&self.x, plus),
            (Some(norm), None) => Ok((self.x.clone(), norm.forward(&self.x)?)),
            (None, _) => self.sum().map(|sum| (sum.clone(), sum)),
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
