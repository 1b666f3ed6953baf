//! Gemma 3, the text model: windowed layers with an own rotary base, norms on both sides, 1 + w norm weights.
//!
//! Rope scaling holds for full layers only, which is easily lost, and quietly.

use omlx_gguf::Gguf;
use serde_json::{Map, Value};

use super::gemma::Gemma;
use super::{Arch, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder, LayerKind, decimal};
use crate::spec::{QkNorm, Spec};
use crate::weights::Part;

/// Gemma 3 as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "gemma3_text",
    also: &["gemma3"],
    classes: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
    gguf: Some("gemma3"),
    spec,
    gguf_keys,
    names: shared_names![
        (Part::AfterAttn, "post_attention_layernorm", "post_attention_norm"),
        (Part::BeforeFfn, "pre_feedforward_layernorm", "ffn_norm"),
        (Part::AfterFfn, "post_feedforward_layernorm", "post_ffw_norm"),
        (Part::QueryNorm, "self_attn.q_norm", "attn_q_norm"),
        (Part::KeyNorm, "self_attn.k_norm", "attn_k_norm"),
    ],
    norm_offset: 1.0,
    gguf_interleaves: false,
    partial_rotary: false,
    experts: false,
};

/// What the family's own code fills in; published multimodal configs rely on it.
const ABSENT: Absent = Absent {
    vocab: Some(262_208),
    q_heads: Some(8),
    kv_heads: Some(4),
    dim: Some(256),
    context: Some(131_072),
    eps: Some(1e-6),
    act: None,
};
const FULL_BASE: f32 = 1_000_000.0;
const SLIDING_BASE: f32 = 10_000.0;
/// Every sixth layer is a full one.
const PATTERN: usize = 6;

fn spec(c: &Config) -> Result<Spec> {
    let decoder = Decoder::read(c, ABSENT)?;
    let gemma = Gemma {
        kinds: kinds(c, decoder.layers)?,
        window: c.count("sliding_window", 1..=1 << 24)?,
        full: c.rope_of(LayerKind::Full, decoder.dim, FULL_BASE, decoder.context)?,
        sliding: c.rope_of(LayerKind::Sliding, decoder.dim, SLIDING_BASE, decoder.context)?,
        qk_norm: QkNorm::Head,
        softcaps: (c.positive("attn_logit_softcapping")?, c.positive("final_logit_softcapping")?),
        decoder,
    };
    gemma.spec(c)
}

fn kinds(c: &Config, layers: usize) -> Result<Vec<LayerKind>> {
    if let Some(kinds) = c.layer_kinds(layers)? {
        return Ok(kinds);
    }
    let pattern = c.count_or("sliding_window_pattern", PATTERN, 1..=1024)?;
    let kind = |layer: usize| if (layer + 1).is_multiple_of(pattern) { LayerKind::Full } else { LayerKind::Sliding };
    Ok((0..layers).map(kind).collect())
}

/// The pattern, the local base and the score scale are not in most GGUF files: they follow from the size of the model.
fn gguf_keys(gguf: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    let number = |key: &str| keys.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (layers, hidden, heads) = (number("num_hidden_layers"), number("hidden_size"), number("num_attention_heads"));
    // The 27B model alone scales by hidden size over heads.
    let scalar = if layers == 62 { hidden / heads.max(1) } else { number("head_dim") };
    let window = gguf.u64(&gguf.key("attention.sliding_window")?)?;
    let pattern = gguf.u64_or(&gguf.key("attention.sliding_window_pattern")?, PATTERN as u64)?;
    let local = gguf.f32_or(&gguf.key("rope.freq_base_swa")?, SLIDING_BASE)?;
    let softcap = gguf.opt_f32(&gguf.key("final_logit_softcapping")?)?;
    keys.insert("hidden_activation".into(), "gelu_pytorch_tanh".into());
    keys.insert("query_pre_attn_scalar".into(), scalar.into());
    keys.insert("sliding_window".into(), window.into());
    keys.insert("sliding_window_pattern".into(), pattern.into());
    keys.insert("rope_local_base_freq".into(), decimal(local));
    keys.insert("attn_logit_softcapping".into(), Value::Null);
    keys.insert("final_logit_softcapping".into(), softcap.map(decimal).into());
    Ok(())
}
