//! Qwen2 and Qwen2.5: Llama with biases on query, key and value, and windows in the upper layers if asked for.

use omlx_gguf::Gguf;
use serde_json::{Map, Value};

use super::{Arch, pre_norm, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder};
use crate::spec::{AttnBias, Spec};
use crate::weights::Part;

/// Qwen2 as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "qwen2",
    also: &[],
    classes: &["Qwen2ForCausalLM"],
    gguf: Some("qwen2"),
    spec,
    gguf_keys,
    names: shared_names![(Part::BeforeFfn, "post_attention_layernorm", "ffn_norm")],
    norm_offset: 0.0,
    gguf_interleaves: false,
    partial_rotary: false,
    experts: false,
};

fn spec(c: &Config) -> Result<Spec> {
    let d = Decoder::read(c, Absent::default())?;
    let mut spec = pre_norm::spec(c, &d, &c.rope(d.dim, d.context)?, &pre_norm::switched(c, d.layers)?)?;
    spec.layers.iter_mut().for_each(|layer| layer.attn.bias = AttnBias { qkv: true, out: false });
    Ok(spec)
}

fn gguf_keys(_: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    keys.insert("hidden_act".into(), "silu".into());
    // The key below is Llama's; published Qwen2 configs have none, the biases are part of the architecture.
    keys.remove("attention_bias");
    keys.insert("use_sliding_window".into(), false.into());
    Ok(())
}
