//! Qwen2 and Qwen2.5: Llama with biases on query, key and value, and windows in the upper layers if asked for.

use omlx_gguf::Gguf;
use omlx_ops::Reach;
use serde_json::{Map, Value};

use super::pre_norm::PreNorm;
use super::{Arch, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder, LayerKind};
use crate::spec::{AttnBias, Spec};
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

fn spec(c: &Config) -> Result<Spec> {
    let decoder = Decoder::read(c, Absent::default())?;
    let attn_bias = AttnBias { qkv: true, out: false };
    PreNorm { attn_bias, mlp_bias: false, reaches: reaches(c, decoder.layers)?, decoder }.spec(c)
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

fn gguf_keys(_: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    keys.insert("hidden_act".into(), "silu".into());
    // The key below is Llama's; published Qwen2 configs have none, the biases are part of the architecture.
    keys.remove("attention_bias");
    keys.insert("use_sliding_window".into(), false.into());
    Ok(())
}
