//! The architectures as data: which configs each one speaks for, how it becomes a `Spec`, and how its tensors are called.
//!
//! A new architecture is a file here and a row in `ARCHS`, if its wiring is that of `Block`.

mod gemma;
mod gemma2;
mod gemma3;
mod glm4_moe;
mod gpt_oss;
mod llama;
mod mixtral;
mod olmo2;
mod phi3;
mod pre_norm;
mod qwen2;
mod qwen3;
mod qwen3_moe;
mod smollm3;
mod step3p5;

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
    /// `general.architecture` in GGUF, if such files are read.
    pub gguf: Option<&'static str>,
    /// From config to values.
    pub spec: fn(&Config) -> Result<Spec>,
    /// What this architecture's GGUF metadata says beyond the shared keys, put under the names of config.json.
    pub gguf_keys: fn(&Gguf, &mut Map<String, Value>) -> Result<()>,
    /// Parts with their names in folders and in GGUF files, without layer prefix and `.weight`. A part may have several, of
    /// which a file uses one; `{}` stands for the number of an expert, and without it a tensor holds all experts.
    pub names: &'static [(Part, &'static str, &'static str)],
    /// Added to every norm weight of a folder; GGUF files hold the sum already.
    pub norm_offset: f32,
    /// Whether GGUF files hold the rows of query and key in interleaved order.
    pub gguf_interleaves: bool,
    /// Whether a part of each head may be rotated and the rest left as it is.
    pub partial_rotary: bool,
    /// Whether layers have experts; tells apart architectures that share a name in GGUF.
    pub experts: bool,
}

/// All architectures that load.
pub const ARCHS: [&Arch; 13] = [
    &llama::ARCH,
    &mixtral::ARCH,
    &qwen2::ARCH,
    &qwen3::ARCH,
    &qwen3_moe::ARCH,
    &gemma2::ARCH,
    &gemma3::ARCH,
    &phi3::ARCH,
    &smollm3::ARCH,
    &olmo2::ARCH,
    &glm4_moe::ARCH,
    &step3p5::ARCH,
    &gpt_oss::ARCH,
];

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

/// The same with the names of experts and their router: as published, in one tensor for all as MLX has them, and in one tensor
/// with gate and up together as transformers holds them.
macro_rules! expert_names {
    ($at:literal, [$gate:literal, $up:literal, $down:literal]; $($own:expr),* $(,)?) => {
        super::shared_names![
            (Part::Router, concat!($at, ".gate"), "ffn_gate_inp"),
            (Part::ExpertGate, concat!($at, ".experts.{}.", $gate), "ffn_gate_exps"),
            (Part::ExpertUp, concat!($at, ".experts.{}.", $up), "ffn_up_exps"),
            (Part::ExpertDown, concat!($at, ".experts.{}.", $down), "ffn_down_exps"),
            (Part::ExpertGate, concat!($at, ".switch_mlp.gate_proj"), ""),
            (Part::ExpertUp, concat!($at, ".switch_mlp.up_proj"), ""),
            (Part::ExpertDown, concat!($at, ".switch_mlp.down_proj"), ""),
            (Part::ExpertGateUp, concat!($at, ".experts.gate_up_proj"), ""),
            (Part::ExpertDown, concat!($at, ".experts.down_proj"), ""),
            $($own),*
        ]
    };
}
use expert_names;

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
        let experts = gguf.opt_u64(&gguf.key("expert_count")?)?.is_some_and(|count| count > 0);
        let named = || ARCHS.iter().filter(|a| a.gguf == Some(kind));
        let found = named().find(|a| a.experts == experts).or_else(|| named().next());
        found.copied().ok_or_else(|| Error::Unknown {
            file: file.to_owned(),
            key: "general.architecture".into(),
            found: kind.into(),
            known: gguf_names(),
        })
    }
}

/// Each once.
fn gguf_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = ARCHS.iter().filter_map(|a| a.gguf).collect();
    names.dedup();
    names
}

/// Of an architecture that no GGUF file is read for.
fn no_gguf(_: &Gguf, _: &mut Map<String, Value>) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
