//! The architectures as data: which configs each one speaks for, how it becomes a `Spec`, and how its tensors are called.
//!
//! A new architecture is a file here and a row in `ARCHS`, if its wiring is that of `Block`.

mod gemma;
mod gemma2;
mod gemma3;
mod llama;
mod olmo2;
mod phi3;
mod pre_norm;
mod qwen2;
mod qwen3;
mod smollm3;

use omlx_gguf::Gguf;
use serde_json::{Map, Value};

use crate::config::Config;
use crate::spec::Spec;
use crate::weights::Part;
use crate::{Error, Result};

/// One architecture.
#[derive(Debug)]
pub struct Arch {
    /// `model_type` in config.json.
    pub model_type: &'static str,
    /// Other model types whose configs mean the same.
    pub also: &'static [&'static str],
    /// `architectures` in config.json: the classes with a language-model head.
    pub classes: &'static [&'static str],
    /// `general.architecture` in GGUF.
    pub gguf: &'static str,
    /// From config to values.
    pub spec: fn(&Config) -> Result<Spec>,
    /// What this architecture's GGUF metadata says beyond the shared keys, put under the names of config.json.
    pub gguf_keys: fn(&Gguf, &mut Map<String, Value>) -> Result<()>,
    /// Parts with their names in folders and in GGUF files, without layer prefix and `.weight`.
    pub names: &'static [(Part, &'static str, &'static str)],
    /// Added to every norm weight of a folder; GGUF files hold the sum already.
    pub norm_offset: f32,
    /// Whether GGUF files hold the rows of query and key in interleaved order.
    pub gguf_interleaves: bool,
    /// Whether a part of each head may be rotated and the rest left as it is.
    pub partial_rotary: bool,
}

/// All architectures that load.
pub const ARCHS: [&Arch; 8] =
    [&llama::ARCH, &qwen2::ARCH, &qwen3::ARCH, &gemma2::ARCH, &gemma3::ARCH, &phi3::ARCH, &smollm3::ARCH, &olmo2::ARCH];

/// Names shared by every architecture: all but the norms around attention and feed-forward.
macro_rules! shared_names {
    ($($own:expr),* $(,)?) => {
        &[
            (Part::Embed, "embed_tokens", "token_embd"),
            (Part::LastNorm, "norm", "output_norm"),
            (Part::Head, "lm_head", "output"),
            (Part::Query, "self_attn.q_proj", "attn_q"),
            (Part::Key, "self_attn.k_proj", "attn_k"),
            (Part::Value, "self_attn.v_proj", "attn_v"),
            (Part::Out, "self_attn.o_proj", "attn_output"),
            (Part::Gate, "mlp.gate_proj", "ffn_gate"),
            (Part::Up, "mlp.up_proj", "ffn_up"),
            (Part::Down, "mlp.down_proj", "ffn_down"),
            (Part::BeforeAttn, "input_layernorm", "attn_norm"),
            $($own),*
        ]
    };
}
use shared_names;

impl Arch {
    /// The architecture that a config.json is for.
    ///
    /// # Errors
    /// When the model type is absent or not known, or the class is one without a language-model head.
    pub fn of_config(c: &Config) -> Result<&'static Self> {
        let kind: String = c.need("model_type")?;
        let known = || ARCHS.iter().flat_map(|a| std::iter::once(a.model_type).chain(a.also.iter().copied()));
        let Some(arch) = ARCHS.iter().find(|a| a.model_type == kind || a.also.contains(&kind.as_str())) else {
            return Err(c.unknown("model_type", &kind, known().collect()));
        };
        let classes: Vec<String> = c.or("architectures", Vec::new())?;
        match classes.first() {
            Some(class) if !arch.classes.contains(&class.as_str()) => {
                Err(c.unknown("architectures", class, arch.classes.to_vec()))
            }
            _ => Ok(arch),
        }
    }

    /// The architecture that a GGUF file is for.
    ///
    /// # Errors
    /// When `general.architecture` is absent or not known.
    pub fn of_gguf(gguf: &Gguf, file: &std::path::Path) -> Result<&'static Self> {
        let kind = gguf.architecture()?;
        ARCHS.iter().find(|a| a.gguf == kind).copied().ok_or_else(|| Error::Unknown {
            file: file.to_owned(),
            key: "general.architecture".into(),
            found: kind.into(),
            known: ARCHS.iter().map(|a| a.gguf).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
