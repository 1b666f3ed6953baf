//! Llama, and Mistral, whose only difference is a window.

use omlx_gguf::Gguf;
use serde_json::{Map, Value};

use super::{Arch, pre_norm, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder};
use crate::spec::Spec;
use crate::weights::Part;

/// Llama as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "llama",
    also: &["mistral"],
    classes: &["LlamaForCausalLM", "MistralForCausalLM"],
    gguf: Some("llama"),
    spec,
    gguf_keys,
    names: shared_names![(Part::BeforeFfn, "post_attention_layernorm", "ffn_norm")],
    norm_offset: 0.0,
    gguf_interleaves: true,
    partial_rotary: false,
    experts: false,
};

/// What a Mistral config without the key means; published ones have the key, and null where there is no window.
const MISTRAL_WINDOW: usize = 4096;

fn spec(c: &Config) -> Result<Spec> {
    let d = Decoder::read(c, Absent::default())?;
    // A Llama config has no window.
    let window = match c.need::<String>("model_type")?.as_str() {
        "mistral" => c.window("sliding_window", Some(MISTRAL_WINDOW))?,
        _ => None,
    };
    let mut spec = pre_norm::spec(c, &d, &c.rope(d.dim, d.context)?, &pre_norm::reaches(c, d.layers, window)?)?;
    pre_norm::biases(c, &mut spec)?;
    Ok(spec)
}

pub(super) fn gguf_keys(_: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    keys.insert("hidden_act".into(), "silu".into());
    Ok(())
}
