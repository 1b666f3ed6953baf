//! The decoder that Llama and its relatives share: norms before attention and feed-forward, one rotation, a gated feed-forward.
//!
//! A relative takes this spec and changes what is its own.

use omlx_ops::{Reach, RopeSpec};

use crate::Result;
use crate::config::{Config, Decoder, LayerKind};
use crate::spec::{AttnBias, AttnSpec, FfnSpec, HeadSpec, LayerSpec, Norms, Place, QkNorm, Spec};

/// A Llama whose layers look back as `reaches` say, one for each.
pub(super) fn spec(c: &Config, d: &Decoder, rope: &RopeSpec, reaches: &[Reach]) -> Result<Spec> {
    let act = Decoder::act(c, "hidden_act", d.act_absent)?;
    let layer = |reach: &Reach| LayerSpec {
        norms: Norms { place: Place::Before, eps: d.eps },
        attn: AttnSpec {
            q_heads: d.q_heads,
            kv_heads: d.kv_heads,
            dim: d.dim,
            scale: 1.0 / (d.dim as f32).sqrt(),
            reach: *reach,
            rope: Some(rope.clone()),
            qk_norm: QkNorm::None,
            bias: AttnBias { qkv: false, out: false },
            softcap: None,
            gate: false,
            sinks: false,
        },
        ffn: FfnSpec::Dense { width: d.width, act, bias: false },
    };
    Ok(Spec {
        vocab: d.vocab,
        hidden: d.hidden,
        context: d.context,
        embed_scale: 1.0,
        layers: reaches.iter().map(layer).collect(),
        head: HeadSpec { tied: c.or("tie_word_embeddings", false)?, eps: d.eps, softcap: None },
    })
}

/// The window of every layer, unless the layers are listed.
pub(super) fn reaches(c: &Config, layers: usize, window: Option<usize>) -> Result<Vec<Reach>> {
    let Some(kinds) = c.layer_kinds(layers)? else {
        return Ok(vec![window.map_or(Reach::All, Reach::Last); layers]);
    };
    let reach = |kind: &LayerKind| match (kind, window) {
        (LayerKind::Full, _) => Ok(Reach::All),
        (LayerKind::Sliding, Some(window)) => Ok(Reach::Last(window)),
        (LayerKind::Sliding, None) => {
            Err(c.bad("layer_types", "sliding_attention", "full_attention: there is no window"))
        }
    };
    kinds.iter().map(reach).collect()
}

/// Configs of Qwen name a window and switch it off; switched on, it holds from layer `max_window_layers` upwards.
pub(super) fn switched(c: &Config, layers: usize) -> Result<Vec<Reach>> {
    if !c.or("use_sliding_window", false)? {
        return Ok(vec![Reach::All; layers]);
    }
    let window = c.count("sliding_window", 1..=1 << 24)?;
    if c.layer_kinds(layers)?.is_some() {
        return reaches(c, layers, Some(window));
    }
    let full: usize = c.need("max_window_layers")?;
    Ok((0..layers).map(|layer| if layer < full { Reach::All } else { Reach::Last(window) }).collect())
}

/// The two biases as Llama's keys say them.
pub(super) fn biases(c: &Config, spec: &mut Spec) -> Result<()> {
    let (attn, mlp) = (c.or("attention_bias", false)?, c.or("mlp_bias", false)?);
    for layer in &mut spec.layers {
        layer.attn.bias = AttnBias { qkv: attn, out: attn };
        if let FfnSpec::Dense { bias, .. } = &mut layer.ffn {
            *bias = mlp;
        }
    }
    Ok(())
}
