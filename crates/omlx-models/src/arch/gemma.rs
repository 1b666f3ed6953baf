//! The decoder that Gemma 2 and Gemma 3 share: windowed layers among full ones, norms on both sides, 1 + w norm weights.
//!
//! Three values are easily lost here, each quietly: the score scale comes from `query_pre_attn_scalar` and not from the head
//! size; the window counts the token itself; the embedding scale is not rounded.

use omlx_ops::{Reach, RopeSpec};

use crate::Result;
use crate::config::{Config, Decoder, LayerKind};
use crate::spec::{AttnBias, AttnSpec, FfnSpec, HeadSpec, LayerSpec, Norms, Place, QkNorm, Spec};

/// The values in which the two differ.
#[derive(Clone, Debug)]
pub(super) struct Gemma {
    pub(super) decoder: Decoder,
    /// One for each layer.
    pub(super) kinds: Vec<LayerKind>,
    pub(super) window: usize,
    /// Of full layers.
    pub(super) full: RopeSpec,
    /// Of layers with a window.
    pub(super) sliding: RopeSpec,
    pub(super) qk_norm: QkNorm,
    /// Of scores, of logits.
    pub(super) softcaps: (Option<f32>, Option<f32>),
}

impl Gemma {
    pub(super) fn spec(&self, c: &Config) -> Result<Spec> {
        c.must_be_off("use_bidirectional_attention")?;
        let d = &self.decoder;
        let bias = c.or("attention_bias", false)?;
        let act = Decoder::act(c, "hidden_activation", Some("gelu_pytorch_tanh"))?;
        let scalar = c.positive("query_pre_attn_scalar")?.unwrap_or(256.0);
        let layer = |kind: &LayerKind| {
            let (reach, rope) = match kind {
                LayerKind::Full => (Reach::All, self.full.clone()),
                LayerKind::Sliding => (Reach::Last(self.window), self.sliding.clone()),
            };
            LayerSpec {
                norms: Norms { place: Place::BeforeAndAfter, eps: d.eps },
                attn: AttnSpec {
                    q_heads: d.q_heads,
                    kv_heads: d.kv_heads,
                    dim: d.dim,
                    scale: 1.0 / scalar.sqrt(),
                    reach,
                    rope: Some(rope),
                    qk_norm: self.qk_norm,
                    bias: AttnBias { qkv: bias, out: bias },
                    softcap: self.softcaps.0,
                    gate: false,
                    sinks: false,
                },
                ffn: FfnSpec::Dense { width: d.width, act, bias: false },
            }
        };
        Ok(Spec {
            vocab: d.vocab,
            hidden: d.hidden,
            context: d.context,
            // f32: in bf16 it would be 25.25 for 25.298 with a hidden size of 640.
            embed_scale: (d.hidden as f32).sqrt(),
            layers: self.kinds.iter().map(layer).collect(),
            head: HeadSpec { tied: c.or("tie_word_embeddings", true)?, eps: d.eps, softcap: self.softcaps.1 },
        })
    }
}
