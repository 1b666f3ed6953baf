//! Qwen2 and Qwen2.5: Llama with biases on query, key and value, and windows in the upper layers if asked for.

use omlx_gguf::Gguf;
use omlx_ops::Reach;
use serde_json::{Map, Value};

use super::{Arch, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder, LayerKind};
use crate::spec::{AttnBias, AttnSpec, FfnSpec, HeadSpec, LayerSpec, Norms, Place, Spec};
use crate::weights::Part;

/// Qwen2 as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "qwen2",
    also: &[],
    classes: &["Qwen2ForCausalLM"],
    gguf: "qwen2",
    spec,
    gguf_keys,
    names: shared_names![(Part::BeforeFfn, "post_attention_layernorm", "ffn_norm")],
    norm_offset: 0.0,
    gguf_interleaves: false,
};

#[derive(Clone, Debug)]
struct Qwen2 {
    decoder: Decoder,
    tied: bool,
    reaches: Vec<Reach>,
}

fn spec(c: &Config) -> Result<Spec> {
    let decoder = Decoder::read(c, Absent::default())?;
    let qwen = Qwen2 { tied: c.or("tie_word_embeddings", false)?, reaches: reaches(c, decoder.layers)?, decoder };
    qwen.spec(c)
}

/// Published configs name a window and switch it off; switched on, it holds from layer `max_window_layers` upwards.
fn reaches(c: &Config, layers: usize) -> Result<Vec<Reach>> {
    if !c.or("use_sliding_window", false)? {
        return Ok(vec![Reach::All; layers]);
    }
    let window = Reach::Last(c.count("sliding_window", 1..=1 << 24)?);
    if let Some(kinds) = c.layer_kinds(layers)? {
        return Ok(kinds.iter().map(|k| if *k == LayerKind::Full { Reach::All } else { window }).collect());
    }
    let full: usize = c.need("max_window_layers")?;
    Ok((0..layers).map(|layer| if layer < full { Reach::All } else { window }).collect())
}

impl Qwen2 {
    fn spec(&self, c: &Config) -> Result<Spec> {
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
                bias: AttnBias { qkv: true, out: false },
                softcap: None,
            },
            ffn: FfnSpec::Dense { width: d.width, act, bias: false },
        };
        Ok(Spec {
            vocab: d.vocab,
            hidden: d.hidden,
            context: d.context,
            embed_scale: 1.0,
            layers: self.reaches.iter().map(layer).collect(),
            head: HeadSpec { tied: self.tied, eps: d.eps, softcap: None },
        })
    }
}

fn gguf_keys(_: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    keys.insert("hidden_act".into(), "silu".into());
    // The key below is Llama's; published Qwen2 configs have none, the biases are part of the architecture.
    keys.remove("attention_bias");
    keys.insert("use_sliding_window".into(), false.into());
    Ok(())
}
