//! Phi-3, Phi-3.5 and Phi-4: Llama with fused projections, a rotation that may be partial and LongRoPE.

use omlx_gguf::Gguf;
use serde_json::{Map, Value};

use super::{Arch, pre_norm};
use crate::Result;
use crate::config::{Absent, Config, Decoder};
use crate::spec::Spec;
use crate::weights::Part;

/// Phi-3 as data.
pub(super) const ARCH: Arch = Arch {
    model_type: "phi3",
    also: &[],
    classes: &["Phi3ForCausalLM"],
    gguf: Some("phi3"),
    spec,
    gguf_keys,
    names: &[
        (Part::Embed, "embed_tokens", "token_embd"),
        (Part::LastNorm, "norm", "output_norm"),
        (Part::Head, "lm_head", "output"),
        (Part::BeforeAttn, "input_layernorm", "attn_norm"),
        (Part::QueryKeyValue, "self_attn.qkv_proj", "attn_qkv"),
        (Part::Out, "self_attn.o_proj", "attn_output"),
        (Part::BeforeFfn, "post_attention_layernorm", "ffn_norm"),
        (Part::GateUp, "mlp.gate_up_proj", "ffn_up"),
        (Part::Down, "mlp.down_proj", "ffn_down"),
    ],
    norm_offset: 0.0,
    gguf_interleaves: false,
    partial_rotary: true,
    experts: false,
};

fn spec(c: &Config) -> Result<Spec> {
    let d = Decoder::read(c, Absent::default())?;
    let rope = c.rope_of_part(d.dim, 1.0, d.context)?;
    let reaches = pre_norm::reaches(c, d.layers, c.window("sliding_window", None)?)?;
    pre_norm::spec(c, &d, &rope, &reaches)
}

/// Files name a window for every model and put a huge one where there is none.
fn gguf_keys(gguf: &Gguf, keys: &mut Map<String, Value>) -> Result<()> {
    let context = keys.get("max_position_embeddings").and_then(Value::as_u64).unwrap_or(0);
    let window = gguf.opt_u64(&gguf.key("attention.sliding_window")?)?.filter(|w| (1..context).contains(w));
    keys.insert("sliding_window".into(), window.into());
    keys.insert("hidden_act".into(), "silu".into());
    Ok(())
}
