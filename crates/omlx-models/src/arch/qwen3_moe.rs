//! Qwen3-MoE: Qwen3 with experts in most layers.

use omlx_gguf::Gguf;
use omlx_ops::{Router, Score};
use serde_json::{Map, Value};

use super::{Arch, expert_names, pre_norm, qwen3};
use crate::Result;
use crate::config::{Absent, Config, Decoder};
use crate::spec::{FfnSpec, MoeSpec, QkNorm, Spec};
use crate::weights::Part;

/// Qwen3-MoE as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "qwen3_moe",
    also: &[],
    classes: &["Qwen3MoeForCausalLM"],
    gguf: Some("qwen3moe"),
    spec,
    gguf_keys,
    names: expert_names!(
        "mlp", ["gate_proj", "up_proj", "down_proj"];
        (Part::BeforeFfn, "post_attention_layernorm", "ffn_norm"),
        (Part::QueryNorm, "self_attn.q_norm", "attn_q_norm"),
        (Part::KeyNorm, "self_attn.k_norm", "attn_k_norm"),
    ),
    norm_offset: 0.0,
    gguf_interleaves: false,
    partial_rotary: false,
    experts: true,
};

fn spec(c: &Config) -> Result<Spec> {
    // Unlike Qwen3, no head size of its own.
    let d = Decoder::read(c, Absent::default())?;
    // One window for all layers, where it is switched on.
    let window = if c.or("use_sliding_window", false)? { c.window("sliding_window", Some(4096))? } else { None };
    let reaches = pre_norm::reaches(c, d.layers, window)?;
    let mut spec = pre_norm::spec(c, &d, &c.rope(d.dim, d.context)?, &reaches)?;
    pre_norm::biases(c, &mut spec)?;
    let moe = moe(c)?;
    let dense = c.or("mlp_only_layers", Vec::<usize>::new())?;
    let step = c.count_or("decoder_sparse_step", 1, 1..=1024)?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        layer.attn.qk_norm = QkNorm::Head;
        if !dense.contains(&index) && (index + 1).is_multiple_of(step) {
            layer.ffn = FfnSpec::Moe(moe);
        }
    }
    Ok(spec)
}

fn moe(c: &Config) -> Result<MoeSpec> {
    let experts = c.count("num_experts", 1..=4096)?;
    let top = c.count("num_experts_per_tok", 1..=experts)?;
    let renorm = c.or("norm_topk_prob", false)?;
    let router = Router { score: Score::Softmax, top, bias: false, groups: None, renorm, scale: 1.0 };
    let (width, act) = (c.count("moe_intermediate_size", 1..=1 << 20)?, Decoder::act(c, "hidden_act", None)?);
    Ok(MoeSpec { experts, width, act, router, bias: false, alternate: false, shared: None })
}

/// Files do not say that weights are renormalised: those of every published model are. Nor do they say which layers are dense.
fn gguf_keys(gguf: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    qwen3::gguf_keys(gguf, keys)?;
    keys.insert("num_experts".into(), gguf.u64(&gguf.key("expert_count")?)?.into());
    keys.insert("moe_intermediate_size".into(), gguf.u64(&gguf.key("expert_feed_forward_length")?)?.into());
    keys.insert("norm_topk_prob".into(), true.into());
    let layers = keys.get("num_hidden_layers").and_then(Value::as_u64).unwrap_or(0).min(1024);
    let routed = |layer: &u64| gguf.tensor(&format!("blk.{layer}.ffn_gate_inp.weight")).is_some();
    keys.insert("mlp_only_layers".into(), (0..layers).filter(|layer| !routed(layer)).collect());
    Ok(())
}
