//! Qwen3: Llama with a norm on every head of query and key, heads that do not divide the hidden size, and Qwen's windows.

use omlx_gguf::Gguf;
use serde_json::{Map, Value};

use super::{Arch, pre_norm, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder};
use crate::spec::{QkNorm, Spec};
use crate::weights::Part;

/// Qwen3 as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "qwen3",
    also: &[],
    classes: &["Qwen3ForCausalLM"],
    gguf: Some("qwen3"),
    spec,
    gguf_keys,
    names: shared_names![
        (Part::BeforeFfn, "post_attention_layernorm", "ffn_norm"),
        (Part::QueryNorm, "self_attn.q_norm", "attn_q_norm"),
        (Part::KeyNorm, "self_attn.k_norm", "attn_k_norm"),
    ],
    norm_offset: 0.0,
    gguf_interleaves: false,
    partial_rotary: false,
    experts: false,
};

/// What the family's own code fills in.
const ABSENT: Absent =
    Absent { vocab: None, q_heads: None, kv_heads: None, dim: Some(128), context: None, eps: None, act: None };

fn spec(c: &Config) -> Result<Spec> {
    let d = Decoder::read(c, ABSENT)?;
    let mut spec = pre_norm::spec(c, &d, &c.rope(d.dim, d.context)?, &pre_norm::switched(c, d.layers)?)?;
    pre_norm::biases(c, &mut spec)?;
    spec.layers.iter_mut().for_each(|layer| layer.attn.qk_norm = QkNorm::Head);
    Ok(spec)
}

pub(super) fn gguf_keys(_: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    keys.insert("hidden_act".into(), "silu".into());
    keys.insert("use_sliding_window".into(), false.into());
    Ok(())
}
