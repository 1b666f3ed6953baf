//! Project, norm, rotate, write, attend, project.

use candle_core::Tensor;
use omlx_kv::{LayerKv, Result};
use omlx_ops::{Attend, Linear, RopeTable, apply_rope};

use crate::Error;
use crate::block::Norm;
use crate::spec::AttnSpec;
use crate::weights::{Matrix, Part, Weights};

/// Attention of one layer.
#[derive(Debug)]
pub(crate) struct Attention {
    /// Query, key and value in one matrix: one pass over x.
    qkv: Linear,
    out: Linear,
    norms: Option<(Norm, Norm)>,
    how: Attend,
    q_heads: usize,
    kv_heads: usize,
    dim: usize,
}

impl Attention {
    pub(crate) fn new(
        layer: usize,
        spec: &AttnSpec,
        eps: f32,
        hidden: usize,
        weights: &mut Weights,
    ) -> crate::Result<Self> {
        let AttnSpec { q_heads, kv_heads, dim, bias, .. } = *spec;
        let heads = |heads: usize| Matrix { rows: heads * dim, cols: hidden, bias: bias.qkv, heads };
        let q = weights.linear(Part::Query.of(layer), heads(q_heads))?;
        let k = weights.linear(Part::Key.of(layer), heads(kv_heads))?;
        let v = weights.linear(Part::Value.of(layer), heads(kv_heads))?;
        let out = Matrix { rows: hidden, cols: q_heads * dim, bias: bias.out, heads: 1 };
        let norms = match spec.qk_norm {
            false => None,
            true => Some((
                Norm::new(weights.norm(Part::QueryNorm.of(layer), dim)?, eps),
                Norm::new(weights.norm(Part::KeyNorm.of(layer), dim)?, eps),
            )),
        };
        Ok(Self {
            qkv: fused(layer, vec![q, k, v])?,
            out: weights.linear(Part::Out.of(layer), out)?,
            norms,
            how: Attend { scale: spec.scale, reach: spec.reach, softcap: spec.softcap, sinks: None },
            q_heads,
            kv_heads,
            dim,
        })
    }

    /// x `[T, hidden]`.
    pub(crate) fn forward(&self, x: &Tensor, rope: &RopeTable, kv: &LayerKv<'_>) -> Result<Tensor> {
        let (hq, hkv) = (self.q_heads, self.kv_heads);
        let qkv = self.qkv.forward(x)?.reshape(((), hq + 2 * hkv, self.dim))?; // [T, Hq + 2 Hkv, D]
        let (mut q, mut k) = (qkv.narrow(1, 0, hq)?, qkv.narrow(1, hq, hkv)?); // [T, Hq, D], [T, Hkv, D]
        let v = qkv.narrow(1, hq + hkv, hkv)?; // [T, Hkv, D]
        if let Some((q_norm, k_norm)) = &self.norms {
            (q, k) = (q_norm.forward(&q)?, k_norm.forward(&k)?);
        }
        let (q, k) = (apply_rope(&q, rope)?, apply_rope(&k, rope)?);
        kv.write(&k, &v)?;
        let h = kv.attend(&q, &self.how)?; // [T, Hq, D]
        Ok(self.out.forward(&h.reshape(((), hq * self.dim))?)?)
    }
}

/// Matrices with the same input as one.
pub(crate) fn fused(layer: usize, parts: Vec<Linear>) -> crate::Result<Linear> {
    Linear::stack(parts).map_err(|source| Error::device(&format!("layer {layer}"), source))
}
