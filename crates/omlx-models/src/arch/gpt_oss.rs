//! gpt-oss: sinks in every softmax, every other layer with a window, experts with biases and a swish that is held within limits.

use omlx_ops::{Act, Reach, Router, Score};

use super::{Arch, no_gguf, pre_norm, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder, LayerKind};
use crate::spec::{AttnBias, FfnSpec, MoeSpec, Spec};
use crate::weights::Part;

/// gpt-oss as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "gpt_oss",
    also: &[],
    classes: &["GptOssForCausalLM"],
    gguf: None,
    spec,
    gguf_keys: no_gguf,
    names: shared_names![
        (Part::BeforeFfn, "post_attention_layernorm", ""),
        (Part::Sinks, "self_attn.sinks", ""),
        (Part::Router, "mlp.router", ""),
        (Part::ExpertGateUp, "mlp.experts.gate_up_proj", ""),
        (Part::ExpertDown, "mlp.experts.down_proj", ""),
    ],
    norm_offset: 0.0,
    gguf_interleaves: false,
    partial_rotary: false,
    experts: true,
};

/// What the family's own code fills in.
const ABSENT: Absent = Absent {
    vocab: None,
    q_heads: None,
    kv_heads: Some(8),
    dim: Some(64),
    context: Some(131_072),
    eps: Some(1e-5),
    act: Some("silu"),
};
const ALPHA: f32 = 1.702;
const LIMIT: f32 = 7.0;

fn spec(c: &Config) -> Result<Spec> {
    let d = Decoder::read(c, ABSENT)?;
    let alternating = |layer| if layer % 2 == 0 { LayerKind::Sliding } else { LayerKind::Full };
    let kinds = c.layer_kinds(d.layers)?.unwrap_or_else(|| (0..d.layers).map(alternating).collect());
    let window = c.count("sliding_window", 1..=1 << 24)?;
    let reach = |kind: &LayerKind| if *kind == LayerKind::Full { Reach::All } else { Reach::Last(window) };
    let reaches: Vec<Reach> = kinds.iter().map(reach).collect();
    let mut spec = pre_norm::spec(c, &d, &c.rope(d.dim, d.context)?, &reaches)?;
    let bias = c.or("attention_bias", true)?;
    let experts = c.count("num_local_experts", 1..=4096)?;
    let top = c.count("num_experts_per_tok", 1..=experts)?;
    let act = Act::SwishWithin {
        alpha: c.positive("swiglu_alpha")?.unwrap_or(ALPHA),
        limit: c.positive("swiglu_limit")?.unwrap_or(LIMIT),
    };
    // A softmax over the chosen ones.
    let router = Router { score: Score::Softmax, top, bias: false, groups: None, renorm: true, scale: 1.0 };
    for layer in &mut spec.layers {
        layer.attn.bias = AttnBias { qkv: bias, out: bias };
        layer.attn.sinks = true;
        let moe = MoeSpec { experts, width: d.width, act, router, bias: true, alternate: true, shared: None };
        layer.ffn = FfnSpec::Moe(moe);
    }
    Ok(spec)
}
