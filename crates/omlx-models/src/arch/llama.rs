//! Llama, and Mistral, whose only difference is a window.

use omlx_gguf::Gguf;
use omlx_ops::Reach;
use serde_json::{Map, Value};

use super::pre_norm::PreNorm;
use super::{Arch, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder, LayerKind};
use crate::spec::{AttnBias, Spec};
use crate::weights::Part;

/// Llama as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "llama",
    also: &["mistral"],
    classes: &["LlamaForCausalLM", "MistralForCausalLM"],
    gguf: "llama",
    spec,
    gguf_keys,
    names: shared_names![(Part::BeforeFfn, "post_attention_layernorm", "ffn_norm")],
    norm_offset: 0.0,
    gguf_interleaves: true,
};

fn spec(c: &Config) -> Result<Spec> {
    let decoder = Decoder::read(c, Absent::default())?;
    let bias = c.or("attention_bias", false)?;
    let llama = PreNorm {
        attn_bias: AttnBias { qkv: bias, out: bias },
        mlp_bias: c.or("mlp_bias", false)?,
        reaches: reaches(c, decoder.layers)?,
        decoder,
    };
    llama.spec(c)
}

/// A Llama config has no window; Mistral's means every layer, unless the layers are listed.
fn reaches(c: &Config, layers: usize) -> Result<Vec<Reach>> {
    let window = match c.need::<String>("model_type")?.as_str() {
        "mistral" if c.opt::<usize>("sliding_window")?.is_some() => Some(c.count("sliding_window", 1..=1 << 24)?),
        _ => None,
    };
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

fn gguf_keys(_: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    keys.insert("hidden_act".into(), "silu".into());
    Ok(())
}
