//! OLMo 2: Llama whose norms stand behind attention and feed-forward, and over all heads of query and key together.

use super::{Arch, llama, pre_norm, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder};
use crate::spec::{Place, QkNorm, Spec};
use crate::weights::Part;

/// OLMo 2 as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "olmo2",
    also: &[],
    classes: &["Olmo2ForCausalLM"],
    gguf: Some("olmo2"),
    spec,
    gguf_keys: llama::gguf_keys,
    names: shared_names![
        (Part::AfterAttn, "post_attention_layernorm", "post_attention_norm"),
        (Part::AfterFfn, "post_feedforward_layernorm", "post_ffw_norm"),
        (Part::QueryNorm, "self_attn.q_norm", "attn_q_norm"),
        (Part::KeyNorm, "self_attn.k_norm", "attn_k_norm"),
    ],
    norm_offset: 0.0,
    gguf_interleaves: false,
    partial_rotary: false,
    experts: false,
};

fn spec(c: &Config) -> Result<Spec> {
    let d = Decoder::read(c, Absent::default())?;
    let mut spec = pre_norm::spec(c, &d, &c.rope(d.dim, d.context)?, &pre_norm::reaches(c, d.layers, None)?)?;
    pre_norm::biases(c, &mut spec)?;
    for layer in &mut spec.layers {
        layer.norms.place = Place::After;
        layer.attn.qk_norm = QkNorm::Token;
    }
    Ok(spec)
}
