//! The decoder that Llama and its relatives share: norms before attention and feed-forward, one rotation, a gated feed-forward.

use omlx_ops::Reach;

use crate::Result;
use crate::config::{Config, Decoder};
use crate::spec::{AttnBias, AttnSpec, FfnSpec, HeadSpec, LayerSpec, Norms, Place, Spec};

/// The values in which these relatives differ.
#[derive(Clone, Debug)]
pub(super) struct PreNorm {
    pub(super) decoder: Decoder,
    pub(super) attn_bias: AttnBias,
    pub(super) mlp_bias: bool,
    /// One for each layer.
    pub(super) reaches: Vec<Reach>,
}

impl PreNorm {
    pub(super) fn spec(&self, c: &Config) -> Result<Spec> {
        let d = &self.decoder;
        let rope = c.rope(d.dim, d.context)?;
        let act = Decoder::act(c, "hidden_act", None)?;
        let layer = |reach: &Reach| LayerSpec {
            norms: Norms { place: Place::Before, eps: d.eps },
            attn: AttnSpec {
                q_heads: d.q_heads,
                kv_heads: d.kv_heads,
                dim: d.dim,
                scale: 1.0 / (d.dim as f32).sqrt(),
                reach: *reach,
                rope,
                qk_norm: false,
                bias: self.attn_bias,
                softcap: None,
            },
            ffn: FfnSpec::Dense { width: d.width, act, bias: self.mlp_bias },
        };
        Ok(Spec {
            vocab: d.vocab,
            hidden: d.hidden,
            context: d.context,
            embed_scale: 1.0,
            layers: self.reaches.iter().map(layer).collect(),
            head: HeadSpec { tied: c.or("tie_word_embeddings", false)?, eps: d.eps, softcap: None },
        })
    }
}
