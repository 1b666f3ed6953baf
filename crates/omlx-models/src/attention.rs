//! Project, norm, rotate, write, attend, project.

use candle_core::Tensor;
use omlx_kv::{LayerKv, Result};
use omlx_ops::{Attend, Linear, RopeTable, apply_rope};

use crate::block::Norm;
use crate::spec::{AttnSpec, QkNorm};
use crate::weights::{Matrix, Part, Weights};

/// Attention of one layer.
#[derive(Debug)]
pub(crate) struct Attention {
    /// Query, key and value in one matrix: one pass over x.
    qkv: Linear,
    out: Linear,
    norms: QkNorms,
    gate: Option<Linear>,
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
        let out = Matrix { rows: hidden, cols: q_heads * dim, bias: bias.out, heads: 1 };
        let mut pair = |q: usize, k: usize| -> crate::Result<(Norm, Norm)> {
            let mut norm = |part: Part, len| weights.norm(part.of(layer), len).map(|w| Norm::new(w, eps));
            Ok((norm(Part::QueryNorm, q)?, norm(Part::KeyNorm, k)?))
        };
        let norms = match spec.qk_norm {
            QkNorm::None => QkNorms::None,
            QkNorm::Head => pair(dim, dim).map(|(q, k)| QkNorms::Head(q, k))?,
            QkNorm::Token => pair(q_heads * dim, kv_heads * dim).map(|(q, k)| QkNorms::Token(q, k))?,
        };
        let sinks = match spec.sinks {
            true => Some(weights.placed(Part::Sinks.of(layer), q_heads)?),
            false => None,
        };
        let at = |part: Part, count| (part.of(layer), heads(count));
        let qkv = [at(Part::Query, q_heads), at(Part::Key, kv_heads), at(Part::Value, kv_heads)];
        Ok(Self {
            qkv: weights.stacked(Part::QueryKeyValue.of(layer), &qkv)?,
            out: weights.linear(Part::Out.of(layer), out)?,
            norms,
            gate: match spec.gate {
                true => {
                    Some(weights.linear(
                        Part::HeadGate.of(layer),
                        Matrix { rows: q_heads, cols: hidden, bias: false, heads: 1 },
                    )?)
                }
                false => None,
            },
            how: Attend { scale: spec.scale, reach: spec.reach, softcap: spec.softcap, sinks },
            q_heads,
            kv_heads,
            dim,
        })
    }

    /// x `[T, hidden]`.
    pub(crate) fn forward(&self, x: &Tensor, rope: Option<&RopeTable>, kv: &LayerKv<'_>) -> Result<Tensor> {
        let (hq, hkv, dim) = (self.q_heads, self.kv_heads, self.dim);
        let flat = self.qkv.forward(x)?; // [T, (Hq + 2 Hkv) D]
        let qkv = flat.reshape(((), hq + 2 * hkv, dim))?; // [T, Hq + 2 Hkv, D]
        let (mut q, mut k) = (qkv.narrow(1, 0, hq)?, qkv.narrow(1, hq, hkv)?); // [T, Hq, D], [T, Hkv, D]
        let v = qkv.narrow(1, hq + hkv, hkv)?; // [T, Hkv, D]
        match &self.norms {
            QkNorms::None => {}
            QkNorms::Head(q_norm, k_norm) => (q, k) = (q_norm.forward(&q)?, k_norm.forward(&k)?),
            QkNorms::Token(q_norm, k_norm) => {
                q = q_norm.forward(&flat.narrow(1, 0, hq * dim)?)?.reshape(((), hq, dim))?;
                k = k_norm.forward(&flat.narrow(1, hq * dim, hkv * dim)?)?.reshape(((), hkv, dim))?;
            }
        }
        if let Some(rope) = rope {
            (q, k) = (apply_rope(&q, rope)?, apply_rope(&k, rope)?);
        }
        kv.write(&k, &v)?;
        let mut h = kv.attend(&q, &self.how)?; // [T, Hq, D]
        if let Some(gate) = &self.gate {
            let gate = sigmoid(&gate.forward(x)?)?; // [T, Hq]
            h = h.broadcast_mul(&gate.unsqueeze(2)?)?;
        }
        Ok(self.out.forward(&h.reshape(((), hq * self.dim))?)?)
    }
}

/// Norms of query and key.
#[derive(Debug)]
enum QkNorms {
    None,
    /// Weights as long as a head.
    Head(Norm, Norm),
    /// Weights as long as all heads.
    Token(Norm, Norm),
}

fn sigmoid(x: &Tensor) -> Result<Tensor> {
    Ok((x.neg()?.exp()? + 1.0)?.recip()?)
}
