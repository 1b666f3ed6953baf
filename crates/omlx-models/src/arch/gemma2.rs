//! Gemma 2: every other layer has a window, scores and logits are squashed.

use omlx_gguf::Gguf;
use serde_json::{Map, Value};

use super::gemma::Gemma;
use super::{Arch, shared_names};
use crate::Result;
use crate::config::{Absent, Config, Decoder, LayerKind, decimal};
use crate::spec::{QkNorm, Spec};
use crate::weights::Part;

/// Gemma 2 as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "gemma2",
    also: &[],
    classes: &["Gemma2ForCausalLM"],
    gguf: Some("gemma2"),
    spec,
    gguf_keys,
    names: shared_names![
        (Part::AfterAttn, "post_attention_layernorm", "post_attention_norm"),
        (Part::BeforeFfn, "pre_feedforward_layernorm", "ffn_norm"),
        (Part::AfterFfn, "post_feedforward_layernorm", "post_ffw_norm"),
    ],
    norm_offset: 1.0,
    gguf_interleaves: false,
    partial_rotary: false,
    experts: false,
};

/// What the family's own code fills in.
const ABSENT: Absent = Absent {
    vocab: Some(256_000),
    q_heads: Some(8),
    kv_heads: Some(4),
    dim: Some(256),
    context: Some(8192),
    eps: Some(1e-6),
    act: None,
};
const WINDOW: usize = 4096;
/// Of scores, of logits.
const SOFTCAPS: (f32, f32) = (50.0, 30.0);

fn spec(c: &Config) -> Result<Spec> {
    let decoder = Decoder::read(c, ABSENT)?;
    let alternating = |layer| if layer % 2 == 0 { LayerKind::Sliding } else { LayerKind::Full };
    let rope = c.rope(decoder.dim, decoder.context)?;
    let gemma = Gemma {
        kinds: c.layer_kinds(decoder.layers)?.unwrap_or_else(|| (0..decoder.layers).map(alternating).collect()),
        window: c.count_or("sliding_window", WINDOW, 1..=1 << 24)?,
        full: rope.clone(),
        sliding: rope,
        qk_norm: QkNorm::None,
        softcaps: (
            c.positive_or("attn_logit_softcapping", SOFTCAPS.0)?,
            c.positive_or("final_logit_softcapping", SOFTCAPS.1)?,
        ),
        decoder,
    };
    gemma.spec(c)
}

/// The score scale is in no file: it follows from the size of the model.
fn gguf_keys(gguf: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    let number = |key: &str| keys.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (layers, hidden, heads) = (number("num_hidden_layers"), number("hidden_size"), number("num_attention_heads"));
    // The 27B model alone scales by hidden size over heads.
    let scalar = if layers == 46 { hidden / heads.max(1) } else { number("head_dim") };
    keys.insert("query_pre_attn_scalar".into(), scalar.into());
    keys.insert("hidden_activation".into(), "gelu_pytorch_tanh".into());
    if let Some(window) = gguf.opt_u64(&gguf.key("attention.sliding_window")?)? {
        keys.insert("sliding_window".into(), window.into());
    }
    for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
        if let Some(cap) = gguf.opt_f32(&gguf.key(key)?)? {
            keys.insert(key.into(), decimal(cap));
        }
    }
    Ok(())
}
