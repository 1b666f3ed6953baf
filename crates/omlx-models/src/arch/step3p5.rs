//! Step-3.5: per layer its own head count, window, rotation and limits; a gate on every head; experts beside one that all share.

use omlx_ops::{Act, Reach, Router, Score};
use serde_json::Value;

use super::{Arch, no_gguf, pre_norm, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder, LayerKind};
use crate::spec::{AttnSpec, FfnSpec, MoeSpec, QkNorm, Shared, Spec};
use crate::weights::Part;

/// Step-3.5 as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "step3p5",
    also: &[],
    classes: &["Step3p5ForCausalLM"],
    gguf: None,
    spec,
    gguf_keys: no_gguf,
    names: shared_names![
        (Part::BeforeFfn, "post_attention_layernorm", ""),
        (Part::QueryNorm, "self_attn.q_norm", ""),
        (Part::KeyNorm, "self_attn.k_norm", ""),
        (Part::HeadGate, "self_attn.g_proj", ""),
        (Part::Router, "moe.gate", ""),
        (Part::RouterBias, "moe.router_bias", ""),
        (Part::ExpertGate, "moe.gate_proj", ""),
        (Part::ExpertUp, "moe.up_proj", ""),
        (Part::ExpertDown, "moe.down_proj", ""),
        (Part::SharedGate, "share_expert.gate_proj", ""),
        (Part::SharedUp, "share_expert.up_proj", ""),
        (Part::SharedDown, "share_expert.down_proj", ""),
    ],
    norm_offset: 1.0,
    gguf_interleaves: false,
    partial_rotary: true,
    experts: true,
};

const BASE: f32 = 10_000.0;
/// Layers from this one on have experts, where the config does not list them.
const FIRST_ROUTED: usize = 3;

/// Keys of another spelling of the same things, which would be passed over.
const OTHERS: [&str; 3] = ["rope_parameters", "mlp_layer_types", "num_sliding_attention_heads"];

fn spec(c: &Config) -> Result<Spec> {
    if let Some(key) = OTHERS.into_iter().find(|key| c.keys().get(*key).is_some_and(|value| !value.is_null())) {
        return Err(c.bad(key, "there", "the keys of the published config.json and none of transformers' own"));
    }
    let mut d = Decoder::read(c, Absent { act: Some("silu"), ..Absent::default() })?;
    d.kv_heads = c.count_or("num_attention_groups", d.kv_heads, 1..=d.q_heads)?;
    let kinds = kinds(c, d.layers)?;
    let (bases, parts) = (numbers(c, "rope_theta", d.layers)?, numbers(c, "partial_rotary_factors", d.layers)?);
    let (limits, shared_limits) =
        (numbers(c, "swiglu_limits", d.layers)?, numbers(c, "swiglu_limits_shared", d.layers)?);
    let stretched = c.or("yarn_only_types", vec!["full_attention".to_owned()])?;
    let stretched = stretched.iter().map(|word| c.word("yarn_only_types", word, &LayerKind::WORDS));
    let stretched: Vec<LayerKind> = stretched.collect::<Result<_>>()?;
    let routed = routed(c, d.layers)?;
    let gate = c.or("use_head_wise_attn_gate", true)?;
    // Everything per layer is set below; the rest is a Llama's.
    let plain = c.rope_of_layer(d.dim, BASE, false, d.context)?;
    let mut spec = pre_norm::spec(c, &d, &plain, &vec![Reach::All; d.layers])?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let a = &mut layer.attn;
        if kinds[index] == LayerKind::Sliding {
            a.reach = Reach::Last(c.count("sliding_window", 1..=1 << 24)?);
            other_heads(c, a)?;
        }
        let dim = (a.dim as f64 * f64::from(parts[index].unwrap_or(1.0)) + 1e-4) as usize;
        let scaled = stretched.contains(&kinds[index]);
        a.rope = Some(c.rope_of_layer(dim, bases[index].unwrap_or(BASE), scaled, d.context)?);
        (a.qk_norm, a.gate) = (QkNorm::Head, gate);
        let (own, beside) = (act(limits[index]), act(shared_limits[index]));
        layer.ffn = match routed.contains(&index) {
            true => FfnSpec::Moe(moe(c, own, beside)?),
            // A dense layer keeps within the limits of shared experts.
            false => FfnSpec::Dense { width: d.width, act: beside, bias: false },
        };
    }
    Ok(spec)
}

/// No limit and a limit of zero are the same.
fn act(limit: Option<f32>) -> Act {
    limit.filter(|limit| *limit > 0.0).map_or(Act::Silu, |limit| Act::SiluWithin { limit })
}

/// A number for each layer, or one for all. Lists go on for layers that guess further tokens.
fn numbers(c: &Config, key: &str, layers: usize) -> Result<Vec<Option<f32>>> {
    let Some(value) = c.keys().get(key).filter(|v| !v.is_null()) else { return Ok(vec![None; layers]) };
    let Some(list) = value.as_array() else { return Ok(vec![c.opt(key)?; layers]) };
    let number = |v: &Value| v.as_f64().map(|n| n as f32).filter(|n| n.is_finite() && *n >= 0.0);
    if list.len() < layers || list.iter().any(|v| !v.is_null() && number(v).is_none()) {
        return Err(c.bad(key, value.to_string(), format!("a number for each of {layers} layers")));
    }
    Ok(list.iter().take(layers).map(number).collect())
}

fn kinds(c: &Config, layers: usize) -> Result<Vec<LayerKind>> {
    let Some(words) = c.opt::<Vec<String>>("layer_types")? else { return Ok(vec![LayerKind::Full; layers]) };
    if words.len() < layers {
        return Err(c.bad("layer_types", format!("{} entries", words.len()), format!("one per layer, {layers}")));
    }
    words.iter().take(layers).map(|word| c.word("layer_types", word, &LayerKind::WORDS)).collect()
}

/// Layers with a window have heads of another number.
fn other_heads(c: &Config, a: &mut AttnSpec) -> Result<()> {
    let Some(other) = c.section("attention_other_setting")? else { return Ok(()) };
    other.word("attention_type", &other.need::<String>("attention_type")?, &[("sliding_attention", ())])?;
    a.q_heads = other.count_or("num_attention_heads", a.q_heads, 1..=1024)?;
    a.kv_heads = other.count_or("num_attention_groups", a.kv_heads, 1..=a.q_heads)?;
    let dim = other.count_or("head_dim", a.dim, 2..=4096)?;
    if dim != a.dim || !a.q_heads.is_multiple_of(a.kv_heads) {
        let found = format!("{} heads of {dim}, {} groups", a.q_heads, a.kv_heads);
        return Err(c.bad("attention_other_setting", found, format!("heads of {} in whole groups", a.dim)));
    }
    Ok(())
}

/// Which layers have experts: a list, or one in a text with commas.
fn routed(c: &Config, layers: usize) -> Result<Vec<usize>> {
    let text = match c.keys().get("moe_layers_enum") {
        _ if !c.or("use_moe", true)? => return Ok(Vec::new()),
        None | Some(Value::Null) => return Ok((FIRST_ROUTED..layers).collect()),
        Some(Value::String(text)) => text.clone(),
        Some(_) => return c.need("moe_layers_enum"),
    };
    let number = |item: &str| item.trim().parse().map_err(|_| c.bad("moe_layers_enum", item, "numbers with commas"));
    text.split(',').filter(|item| !item.trim().is_empty()).map(number).collect()
}

fn moe(c: &Config, act: Act, shared_act: Act) -> Result<MoeSpec> {
    let known = [("sigmoid", Score::Sigmoid), ("softmax", Score::Softmax)];
    let score = c.word("moe_router_activation", &c.or("moe_router_activation", "sigmoid".to_owned())?, &known)?;
    let experts = c.count("moe_num_experts", 1..=4096)?;
    let router = Router {
        score,
        top: c.count("moe_top_k", 1..=experts)?,
        bias: c.or("use_moe_router_bias", true)?,
        groups: None,
        renorm: c.or("norm_expert_weight", true)?,
        scale: c.positive("moe_router_scaling_factor")?.unwrap_or(1.0),
    };
    let width = c.count("moe_intermediate_size", 1..=1 << 20)?;
    let shared = Shared { width: c.count("share_expert_dim", 1..=1 << 20)?, act: shared_act };
    Ok(MoeSpec { experts, width, act, router, bias: false, alternate: false, shared: Some(shared) })
}
