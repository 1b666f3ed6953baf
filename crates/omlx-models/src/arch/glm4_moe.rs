//! GLM-4.5 and 4.6: a rotation of half a head, sigmoid routing with a bias that only chooses, and an expert that all share.

use omlx_gguf::Gguf;
use omlx_ops::{Groups, Router, Score};
use serde_json::{Map, Value};

use super::{Arch, expert_names, pre_norm};
use crate::Result;
use crate::config::{Absent, Config, Decoder, decimal};
use crate::spec::{AttnBias, FfnSpec, MoeSpec, QkNorm, Shared, Spec};
use crate::weights::Part;

/// GLM-4-MoE as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "glm4_moe",
    also: &[],
    classes: &["Glm4MoeForCausalLM"],
    gguf: Some("glm4moe"),
    spec,
    gguf_keys,
    names: expert_names!(
        "mlp", ["gate_proj", "up_proj", "down_proj"];
        (Part::BeforeFfn, "post_attention_layernorm", "post_attention_norm"),
        (Part::QueryNorm, "self_attn.q_norm", "attn_q_norm"),
        (Part::KeyNorm, "self_attn.k_norm", "attn_k_norm"),
        (Part::RouterBias, "mlp.gate.e_score_correction_bias", "exp_probs_b"),
        (Part::SharedGate, "mlp.shared_experts.gate_proj", "ffn_gate_shexp"),
        (Part::SharedUp, "mlp.shared_experts.up_proj", "ffn_up_shexp"),
        (Part::SharedDown, "mlp.shared_experts.down_proj", "ffn_down_shexp"),
    ),
    norm_offset: 0.0,
    gguf_interleaves: false,
    partial_rotary: true,
    experts: true,
};

/// The part of a head that is rotated where the config does not say.
const ROTATED: f32 = 0.5;

fn spec(c: &Config) -> Result<Spec> {
    let d = Decoder::read(c, Absent::default())?;
    let rope = c.rope_of_part(d.dim, ROTATED, d.context)?;
    let mut spec = pre_norm::spec(c, &d, &rope, &pre_norm::reaches(c, d.layers, None)?)?;
    let bias = AttnBias { qkv: c.or("attention_bias", false)?, out: false };
    let qk_norm = if c.or("use_qk_norm", false)? { QkNorm::Head } else { QkNorm::None };
    let moe = moe(c)?;
    let dense = c.count_or("first_k_dense_replace", 1, 0..=1024)?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        (layer.attn.bias, layer.attn.qk_norm) = (bias, qk_norm);
        if index >= dense {
            layer.ffn = FfnSpec::Moe(moe);
        }
    }
    Ok(spec)
}

fn moe(c: &Config) -> Result<MoeSpec> {
    // Other ways of choosing belong to other models; the keys are there for them.
    c.word("scoring_func", &c.or("scoring_func", "sigmoid".to_owned())?, &[("sigmoid", ())])?;
    c.word("topk_method", &c.or("topk_method", "noaux_tc".to_owned())?, &[("noaux_tc", ())])?;
    let experts = c.count("n_routed_experts", 1..=4096)?;
    let top = c.count("num_experts_per_tok", 1..=experts)?;
    let count = c.count_or("n_group", 1, 1..=experts)?;
    let keep = c.count_or("topk_group", 1, 1..=count)?;
    let size = experts / count;
    if count > 1 && (experts % count != 0 || size < 2 || keep * size < top) {
        let expected = format!("groups of two and more that divide {experts} experts and hold {top} of them");
        return Err(c.bad("n_group", format!("{count} of which {keep} are kept"), expected));
    }
    let router = Router {
        score: Score::Sigmoid,
        top,
        bias: true,
        groups: (count > 1).then_some(Groups { count, keep }),
        renorm: c.or("norm_topk_prob", true)?,
        scale: c.positive("routed_scaling_factor")?.unwrap_or(1.0),
    };
    let (width, act) = (c.count("moe_intermediate_size", 1..=1 << 20)?, Decoder::act(c, "hidden_act", None)?);
    let shared = c.count_or("n_shared_experts", 1, 0..=64)?;
    let shared = (shared > 0).then_some(Shared { width: shared * width, act });
    Ok(MoeSpec { experts, width, act, router, bias: false, alternate: false, shared })
}

fn gguf_keys(gguf: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    let (whole, real) = (
        |key: &str| gguf.key(key),
        |key: &str| -> Result<Value> { Ok(gguf.opt_f32(&gguf.key(key)?)?.map(decimal).into()) },
    );
    // Layers that guess further tokens are counted among the others.
    let spare = gguf.opt_u64(&whole("nextn_predict_layers")?)?.unwrap_or(0);
    let layers = keys.get("num_hidden_layers").and_then(Value::as_u64).unwrap_or(0);
    keys.insert("num_hidden_layers".into(), layers.saturating_sub(spare).into());
    keys.insert("num_nextn_predict_layers".into(), spare.into());
    for (key, theirs) in [
        ("n_routed_experts", "expert_count"),
        ("moe_intermediate_size", "expert_feed_forward_length"),
        ("n_shared_experts", "expert_shared_count"),
        ("first_k_dense_replace", "leading_dense_block_count"),
    ] {
        keys.insert(key.into(), gguf.opt_u64(&whole(theirs)?)?.into());
    }
    // 1 is softmax, 2 sigmoid; 0 and no key are older than the choice.
    let sigmoid = matches!(gguf.opt_u64(&whole("expert_gating_func")?)?, None | Some(0 | 2));
    keys.insert("scoring_func".into(), if sigmoid { "sigmoid" } else { "softmax" }.into());
    keys.insert("routed_scaling_factor".into(), real("expert_weights_scale")?);
    keys.insert("norm_topk_prob".into(), gguf.opt_bool(&whole("expert_weights_norm")?)?.into());
    keys.insert("use_qk_norm".into(), gguf.tensor("blk.0.attn_q_norm.weight").is_some().into());
    keys.insert("hidden_act".into(), "silu".into());
    Ok(())
}
