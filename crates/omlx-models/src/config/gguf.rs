//! The metadata of a GGUF file under the keys of config.json, so that each architecture is described once.

use omlx_gguf::Gguf;
use serde_json::{Map, Value};

use super::Config;
use crate::arch::Arch;
use crate::weights::GgufFile;
use crate::{Error, Result};

/// Keys of config.json and what a GGUF file calls them, behind the architecture's prefix.
const NAMES: [(&str, &str); 28] = [
    ("hidden_size", "embedding_length"),
    ("intermediate_size", "feed_forward_length"),
    ("num_hidden_layers", "block_count"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("max_position_embeddings", "context_length"),
    ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
    ("rope_theta", "rope.freq_base"),
    ("rope_local_base_freq", "rope.freq_base_swa"),
    ("rope_scaling.rope_type", "rope.scaling.type"),
    ("rope_scaling.factor", "rope.scaling.factor"),
    ("rope_scaling.original_max_position_embeddings", "rope.scaling.original_context_length"),
    ("rope_scaling.attention_factor", "rope.scaling.yarn_attn_factor"),
    ("rope_scaling.beta_fast", "rope.scaling.yarn_beta_fast"),
    ("rope_scaling.beta_slow", "rope.scaling.yarn_beta_slow"),
    ("sliding_window", "attention.sliding_window"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
    ("num_experts_per_tok", "expert_used_count"),
    ("num_local_experts", "expert_count"),
    ("num_experts", "expert_count"),
    ("n_routed_experts", "expert_count"),
    ("moe_intermediate_size", "expert_feed_forward_length"),
    ("n_shared_experts", "expert_shared_count"),
    ("first_k_dense_replace", "leading_dense_block_count"),
    ("scoring_func", "expert_gating_func"),
    ("routed_scaling_factor", "expert_weights_scale"),
];

/// What a GGUF file with keys behind `prefix` calls a key of config.json, if it has a name for it.
pub(super) fn name(prefix: &str, key: &str) -> Option<String> {
    NAMES.iter().find(|(ours, _)| *ours == key).map(|(_, theirs)| format!("{prefix}.{theirs}"))
}

/// The config that a GGUF file holds.
///
/// # Errors
/// When a needed key is absent, or the file says something that `Spec` cannot.
pub(crate) fn from_gguf(file: &GgufFile, arch: &Arch) -> Result<Config> {
    let gguf = file.gguf();
    let refuse = |key: &str, found: String, expected: &str| Error::BadValue {
        file: file.path().to_owned(),
        key: gguf.key(key).unwrap_or_else(|_| key.to_owned()),
        found,
        expected: expected.into(),
    };
    let need = |key: &str| -> Result<u64> { Ok(gguf.u64(&gguf.key(key)?)?) };
    let opt = |key: &str| -> Result<Option<u64>> { Ok(gguf.opt_u64(&gguf.key(key)?)?) };

    if let (Some(experts @ 1..), false) = (opt("expert_count")?, arch.experts) {
        return Err(refuse("expert_count", experts.to_string(), "0: experts are not supported for this architecture"));
    }
    let (hidden, heads) = (need("embedding_length")?, need("attention.head_count")?);
    let dim = opt("attention.key_length")?.unwrap_or(hidden / heads.max(1));
    let rotated = opt("rope.dimension_count")?.unwrap_or(dim);
    for (key, other) in
        [("attention.value_length", opt("attention.value_length")?.unwrap_or(dim)), ("rope.dimension_count", rotated)]
    {
        let part = key.starts_with("rope") && arch.partial_rotary && (1..dim).contains(&other);
        if other != dim && !part {
            return Err(refuse(key, other.to_string(), &format!("the head size, {dim}")));
        }
    }
    let mut keys = Map::new();
    let mut put = |key: &str, value: Value| keys.insert(key.into(), value);
    put("model_type", arch.model_type.into());
    put("architectures", arch.classes[..1].into());
    put("vocab_size", file.rows("token_embd.weight")?.into());
    put("hidden_size", hidden.into());
    put("intermediate_size", need("feed_forward_length")?.into());
    put("num_hidden_layers", need("block_count")?.into());
    put("num_attention_heads", heads.into());
    put("num_key_value_heads", opt("attention.head_count_kv")?.unwrap_or(heads).into());
    put("head_dim", dim.into());
    put("max_position_embeddings", need("context_length")?.into());
    put("rms_norm_eps", decimal(gguf.f32(&gguf.key("attention.layer_norm_rms_epsilon")?)?));
    put("rope_theta", decimal(gguf.f32_or(&gguf.key("rope.freq_base")?, 10_000.0)?));
    put("rope_scaling", rope_scaling(file)?);
    put("num_experts_per_tok", opt("expert_used_count")?.into());
    if rotated != dim {
        put("partial_rotary_factor", decimal(rotated as f32 / dim as f32));
    }
    put("tie_word_embeddings", (!file.holds("output.weight")).into());
    put("attention_bias", file.holds("blk.0.attn_q.bias").into());
    put("mlp_bias", file.holds("blk.0.ffn_gate.bias").into());
    for (key, name) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
        put(key, gguf.opt_u64(&format!("tokenizer.ggml.{name}_token_id"))?.into());
    }
    (arch.gguf_keys)(gguf, &mut keys)?;
    Ok(Config { gguf: arch.gguf.map(Into::into), ..Config::new(file.path(), keys)? })
}

/// The shortest decimal that is this f32: 1e-6 and not 9.999999974752427e-7. JSON has no NaN and no infinity, and a null
/// would count as absent: they become texts, which are refused where the key is read.
pub(crate) fn decimal(n: f32) -> Value {
    let text = n.to_string();
    text.parse::<f64>().ok().filter(|n| n.is_finite()).map_or(Value::String(text), Value::from)
}

fn rope_scaling(file: &GgufFile) -> Result<Value> {
    let gguf = file.gguf();
    let real = |key: &str| -> Result<Option<f32>> { Ok(gguf.opt_f32(&gguf.key(key)?)?) };
    if file.holds("rope_freqs.weight") {
        return llama3(file, gguf);
    }
    if file.holds("rope_factors_long.weight") {
        return longrope(file, gguf);
    }
    let kind = gguf.opt_str(&gguf.key("rope.scaling.type")?)?;
    // Old files have a linear factor and no type.
    let factor = real("rope.scaling.factor")?.or(real("rope.scale_linear")?);
    let mut scaling = Map::new();
    match kind {
        Some("none") => return Ok(Value::Null),
        Some(kind) => scaling.insert("rope_type".into(), kind.into()),
        None if factor.is_none_or(|f| f == 1.0) => return Ok(Value::Null),
        None => scaling.insert("rope_type".into(), "linear".into()),
    };
    scaling.insert("factor".into(), factor.map(decimal).into());
    let original = gguf.opt_u64(&gguf.key("rope.scaling.original_context_length")?)?;
    scaling.insert("original_max_position_embeddings".into(), original.into());
    // What these ask for has no counterpart; at their neutral values they ask for nothing.
    for (theirs, neutral) in [
        ("rope.scaling.attn_factor", 1.0),
        ("rope.scaling.yarn_ext_factor", 1.0),
        ("rope.scaling.yarn_log_multiplier", 0.0),
    ] {
        if let Some(found) = real(theirs)?.filter(|found| *found != neutral) {
            return Err(Error::BadValue {
                file: file.path().to_owned(),
                key: gguf.key(theirs)?,
                found: found.to_string(),
                expected: format!("absent or {neutral}; other values are not supported"),
            });
        }
    }
    for (key, theirs) in [
        ("attention_factor", "rope.scaling.yarn_attn_factor"),
        ("beta_fast", "rope.scaling.yarn_beta_fast"),
        ("beta_slow", "rope.scaling.yarn_beta_slow"),
    ] {
        scaling.insert(key.into(), real(theirs)?.map(decimal).into());
    }
    Ok(scaling.into())
}

/// LongRoPE's divisors are tensors; a file without the amplitude means the one that follows from the contexts.
fn longrope(file: &GgufFile, gguf: &Gguf) -> Result<Value> {
    let divisors = |name: &str| -> Result<Value> { Ok(file.floats(name)?.into_iter().map(decimal).collect()) };
    let mut scaling = Map::new();
    scaling.insert("rope_type".into(), "longrope".into());
    scaling.insert("long_factor".into(), divisors("rope_factors_long.weight")?);
    scaling.insert("short_factor".into(), divisors("rope_factors_short.weight")?);
    let original = gguf.opt_u64(&gguf.key("rope.scaling.original_context_length")?)?;
    scaling.insert("original_max_position_embeddings".into(), original.into());
    let amplitude = gguf.opt_f32(&gguf.key("rope.scaling.attn_factor")?)?;
    scaling.insert("attention_factor".into(), amplitude.map(decimal).into());
    Ok(scaling.into())
}

/// Llama 3.1's scaling is stored as what it makes of each frequency. Its factor is the largest entry and the other values
/// are the same in every published model; the table made from them must be the stored one, or the file is refused.
fn llama3(file: &GgufFile, gguf: &Gguf) -> Result<Value> {
    const LOW: f32 = 1.0;
    const HIGH: f32 = 4.0;
    const ORIGINAL: usize = 8192;
    let stored = file.floats("rope_freqs.weight")?;
    let base = gguf.f32_or(&gguf.key("rope.freq_base")?, 10_000.0)?;
    let factor = stored.iter().copied().fold(1.0, f32::max);
    let expected = |i: usize| {
        let turns = ORIGINAL as f32 / (std::f32::consts::TAU * base.powf(i as f32 / stored.len() as f32));
        let ramp = ((turns - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
        1.0 / ((1.0 - ramp) / factor + ramp)
    };
    if !stored.iter().enumerate().all(|(i, s)| (s / expected(i) - 1.0).abs() < 1e-3) {
        return Err(Error::BadValue {
            file: file.path().to_owned(),
            key: "rope_freqs.weight".into(),
            found: "not Llama 3's table".into(),
            expected: "frequencies divided as Llama 3.1 does over 8192 positions".into(),
        });
    }
    let mut scaling = Map::new();
    scaling.insert("rope_type".into(), "llama3".into());
    scaling.insert("factor".into(), decimal(factor));
    scaling.insert("low_freq_factor".into(), decimal(LOW));
    scaling.insert("high_freq_factor".into(), decimal(HIGH));
    scaling.insert("original_max_position_embeddings".into(), ORIGINAL.into());
    Ok(scaling.into())
}
