//! Mixtral: Mistral with experts in every layer.

use omlx_gguf::Gguf;
use omlx_ops::{Router, Score};
use serde_json::{Map, Value};

use super::{Arch, expert_names, pre_norm};
use crate::Result;
use crate::config::{Absent, Config, Decoder};
use crate::spec::{FfnSpec, MoeSpec, Spec};
use crate::weights::Part;

/// Mixtral as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "mixtral",
    also: &[],
    classes: &["MixtralForCausalLM"],
    gguf: Some("llama"),
    spec,
    gguf_keys,
    names: expert_names!(
        "block_sparse_moe", ["w1", "w3", "w2"];
        (Part::BeforeFfn, "post_attention_layernorm", "ffn_norm"),
    ),
    norm_offset: 0.0,
    gguf_interleaves: true,
    partial_rotary: false,
    experts: true,
};

fn spec(c: &Config) -> Result<Spec> {
    let d = Decoder::read(c, Absent::default())?;
    let reaches = pre_norm::reaches(c, d.layers, c.window("sliding_window", None)?)?;
    let mut spec = pre_norm::spec(c, &d, &c.rope(d.dim, d.context)?, &reaches)?;
    let experts = c.count("num_local_experts", 1..=4096)?;
    let top = c.count("num_experts_per_tok", 1..=experts)?;
    let router = Router { score: Score::Softmax, top, bias: false, groups: None, renorm: true, scale: 1.0 };
    let act = Decoder::act(c, "hidden_act", None)?;
    for layer in &mut spec.layers {
        layer.ffn =
            FfnSpec::Moe(MoeSpec { experts, width: d.width, act, router, bias: false, alternate: false, shared: None });
    }
    Ok(spec)
}

fn gguf_keys(gguf: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    keys.insert("hidden_act".into(), "silu".into());
    keys.insert("num_local_experts".into(), gguf.u64(&gguf.key("expert_count")?)?.into());
    Ok(())
}
