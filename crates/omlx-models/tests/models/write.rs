//! Writes GGUF files from the tiny model folders, in ggml's names and row order.

use std::collections::BTreeMap;
use std::path::Path;

use half::{bf16, f16};
use omlx_gguf::GgmlType;
use omlx_models::weights::{Export, Weights};
use serde_json::Value;

/// How matrices are stored; vectors are f32, as ggml's tools write them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    F32,
    F16,
    Bf16,
    Q8,
    I8,
    /// Blocks of this type full of random bits, whatever the folder holds; Q8_0 where a row is no whole number of them.
    Random(GgmlType),
}

/// A metadata entry; `Tensor` adds a tensor in place of an entry, `Gone` takes an entry away.
#[derive(Clone, Debug)]
pub(crate) enum Meta {
    Text(&'static str),
    Int(u32),
    Real(f32),
    Gone,
    Tensor(Vec<f32>),
}

struct Stored {
    name: String,
    shape: Vec<usize>,
    kind: u32,
    bytes: Vec<u8>,
}

pub(crate) fn of_folder(folder: &Path, file: &Path, kind: Kind, changes: &[(&'static str, Meta)]) {
    let weights = Weights::open(folder, &candle_core::Device::Cpu).unwrap();
    let config = weights.config().keys();
    let arch = match config["model_type"].as_str().unwrap() {
        "mixtral" => "llama",
        "qwen3_moe" => "qwen3moe",
        "glm4_moe" => "glm4moe",
        kind => kind.trim_end_matches("_text"),
    };
    let mut meta: BTreeMap<String, Meta> = metadata(arch, config);
    let tensors: Vec<Stored> =
        weights.exports().unwrap().iter().map(|e| stored(arch, config, e, weights.values(e).unwrap(), kind)).collect();
    let mut tensors = joined(tensors);
    for (key, change) in changes {
        match change {
            Meta::Gone => drop(meta.remove(*key)),
            Meta::Tensor(values) => tensors.push(Stored {
                name: (*key).into(),
                shape: vec![values.len()],
                kind: 0,
                bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            }),
            other => drop(meta.insert((*key).into(), other.clone())),
        }
    }
    std::fs::write(file, container(&meta, &tensors)).unwrap();
}

const ARCHS: [&str; 10] =
    ["llama", "qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3", "phi3", "smollm3", "olmo2", "glm4moe"];

/// Norms stand behind a sub-layer, under names that others have for norms before it.
fn norms_behind(arch: &str) -> bool {
    ["gemma2", "gemma3", "olmo2"].contains(&arch)
}

/// Rows of query and key are interleaved.
fn interleaves(arch: &str) -> bool {
    ["llama", "smollm3"].contains(&arch)
}

/// Tensors of one name, experts, as one.
fn joined(tensors: Vec<Stored>) -> Vec<Stored> {
    let mut all: Vec<Stored> = Vec::new();
    for t in tensors {
        match all.iter_mut().find(|known| known.name == t.name) {
            None => all.push(t),
            Some(known) => {
                if known.shape.len() == t.shape.len() {
                    known.shape.insert(0, 1);
                }
                known.shape[0] += 1;
                known.bytes.extend(t.bytes);
            }
        }
    }
    all
}

fn metadata(arch: &str, config: &serde_json::Map<String, Value>) -> BTreeMap<String, Meta> {
    let int = |key: &str| Meta::Int(config[key].as_u64().unwrap() as u32);
    let mut meta = BTreeMap::new();
    let mut put = |key: &str, value| drop(meta.insert(format!("{arch}.{key}"), value));
    put("embedding_length", int("hidden_size"));
    put("feed_forward_length", int("intermediate_size"));
    put("block_count", int("num_hidden_layers"));
    put("attention.head_count", int("num_attention_heads"));
    put("attention.head_count_kv", int("num_key_value_heads"));
    put("attention.key_length", int("head_dim"));
    put("context_length", int("max_position_embeddings"));
    put("attention.layer_norm_rms_epsilon", Meta::Real(config["rms_norm_eps"].as_f64().unwrap() as f32));
    put("rope.freq_base", Meta::Real(config["rope_theta"].as_f64().unwrap() as f32));
    if let "gemma2" | "gemma3" = arch {
        put("attention.sliding_window", int("sliding_window"));
    }
    match arch {
        "gemma2" => {
            for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
                put(key, Meta::Real(config[key].as_f64().unwrap() as f32));
            }
        }
        "gemma3" => put("attention.sliding_window_pattern", int("sliding_window_pattern")),
        "glm4moe" => {
            put("rope.dimension_count", Meta::Int(8));
            put("leading_dense_block_count", int("first_k_dense_replace"));
            put("expert_shared_count", int("n_shared_experts"));
            put("expert_weights_scale", Meta::Real(config["routed_scaling_factor"].as_f64().unwrap() as f32));
            put("expert_gating_func", Meta::Int(2));
        }
        _ => {}
    }
    if let Some(top) = config.get("num_experts_per_tok").and_then(Value::as_u64) {
        put("expert_used_count", Meta::Int(top as u32));
        let count =
            ["num_local_experts", "num_experts", "n_routed_experts"].into_iter().find_map(|key| config.get(key));
        put("expert_count", Meta::Int(count.and_then(Value::as_u64).unwrap() as u32));
        if config.contains_key("moe_intermediate_size") {
            put("expert_feed_forward_length", int("moe_intermediate_size"));
        }
    }
    let name = ARCHS.iter().find(|name| **name == arch).unwrap_or_else(|| panic!("{arch}"));
    meta.insert("general.architecture".into(), Meta::Text(name));
    meta
}

/// Names in ggml, written down once more and apart from the library's own table.
fn ggml_name(arch: &str, name: &str) -> String {
    let Some(rest) = name.strip_prefix("model.layers.") else {
        return match name {
            "model.embed_tokens.weight" => "token_embd.weight".into(),
            "model.norm.weight" => "output_norm.weight".into(),
            _ => "output.weight".into(),
        };
    };
    let (layer, rest) = rest.split_once('.').unwrap();
    let (rest, end) = rest.rsplit_once('.').unwrap();
    if end == "e_score_correction_bias" {
        return format!("blk.{layer}.exp_probs_b.bias");
    }
    let expert = rest.contains(".experts.");
    let own = match rest {
        _ if expert && (rest.ends_with("gate_proj") || rest.ends_with("w1")) => "ffn_gate_exps",
        _ if expert && (rest.ends_with("up_proj") || rest.ends_with("w3")) => "ffn_up_exps",
        _ if expert && (rest.ends_with("down_proj") || rest.ends_with("w2")) => "ffn_down_exps",
        "mlp.gate" | "block_sparse_moe.gate" => "ffn_gate_inp",
        "mlp.shared_experts.gate_proj" => "ffn_gate_shexp",
        "mlp.shared_experts.up_proj" => "ffn_up_shexp",
        "mlp.shared_experts.down_proj" => "ffn_down_shexp",
        "post_attention_layernorm" if arch == "glm4moe" => "post_attention_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        "input_layernorm" => "attn_norm",
        "self_attn.qkv_proj" => "attn_qkv",
        "mlp.gate_up_proj" => "ffn_up",
        "post_attention_layernorm" if norms_behind(arch) => "post_attention_norm",
        "post_attention_layernorm" | "pre_feedforward_layernorm" => "ffn_norm",
        "post_feedforward_layernorm" => "post_ffw_norm",
        other => panic!("{other}"),
    };
    format!("blk.{layer}.{own}.{end}")
}

fn stored(arch: &str, config: &serde_json::Map<String, Value>, e: &Export, mut values: Vec<f32>, kind: Kind) -> Stored {
    let name = ggml_name(arch, &e.name);
    let vector = e.shape.len() == 1;
    if arch.starts_with("gemma") && vector {
        values.iter_mut().for_each(|w| *w += 1.0);
    }
    let heads = match &*e.name {
        n if interleaves(arch) && n.contains("q_proj") => config["num_attention_heads"].as_u64().unwrap() as usize,
        n if interleaves(arch) && n.contains("k_proj") => config["num_key_value_heads"].as_u64().unwrap() as usize,
        _ => 0,
    };
    if heads > 0 {
        values = interleave(&values, heads, e.shape[0]);
    }
    let floats = || values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let (kind, bytes) = match kind {
        _ if vector => (0, floats()),
        Kind::F32 => (0, floats()),
        Kind::F16 => (1, values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect()),
        Kind::Bf16 => (30, values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect()),
        Kind::Q8 => (8, values.chunks(32).flat_map(q8).collect()),
        Kind::I8 => (24, vec![0; values.len()]),
        Kind::Random(kind) if e.shape[1].is_multiple_of(kind.block_elems()) => {
            (ggml_id(kind), random(kind, values.len() / kind.block_elems(), name.len() as u64))
        }
        Kind::Random(_) => (8, values.chunks(32).flat_map(q8).collect()),
    };
    Stored { name, shape: e.shape.clone(), kind, bytes }
}

/// The rows of each head as (j, side) in place of (side, j).
fn interleave(values: &[f32], heads: usize, rows: usize) -> Vec<f32> {
    let (cols, dim) = (values.len() / rows, rows / heads);
    let row = |r: usize| &values[r * cols..][..cols];
    let mut out = Vec::with_capacity(values.len());
    for head in 0..heads {
        for j in 0..dim / 2 {
            out.extend_from_slice(row(head * dim + j));
            out.extend_from_slice(row(head * dim + dim / 2 + j));
        }
    }
    out
}

fn q8(block: &[f32]) -> Vec<u8> {
    let largest = block.iter().fold(0f32, |m, v| m.max(v.abs()));
    let scale = f16::from_f32(largest / 127.0);
    let code = |v: &f32| if largest == 0.0 { 0 } else { (v / scale.to_f32()).round().clamp(-127.0, 127.0) as i8 as u8 };
    scale.to_le_bytes().into_iter().chain(block.iter().map(code)).collect()
}

/// The number of a type in a file.
fn ggml_id(kind: GgmlType) -> u32 {
    (0..64).find(|id| GgmlType::from_id(*id) == Some(kind)).unwrap()
}

/// Random blocks whose scales make values of about a tenth.
fn random(kind: GgmlType, blocks: usize, seed: u64) -> Vec<u8> {
    // where the scale stands and how large it is, and what the offset behind it is in scales: values around zero
    let (at, size, offset) = match kind {
        GgmlType::Q8_0 => (0, 0.001, None),
        GgmlType::Q4_0 => (0, 0.02, None),
        GgmlType::Q5_0 => (0, 0.01, None),
        GgmlType::Q4_1 => (0, 0.02, Some(-7.5)),
        GgmlType::Q5_1 => (0, 0.01, Some(-15.5)),
        GgmlType::Q4K => (0, 0.0005, Some(7.5)),
        GgmlType::Q5K => (0, 0.00025, Some(15.5)),
        GgmlType::Q6K => (208, 0.0001, None),
        other => panic!("{other} has no rule"),
    };
    let mut state = seed;
    let mut byte = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    let mut all = Vec::new();
    for _ in 0..blocks {
        let mut block: Vec<u8> = (0..kind.block_bytes()).map(|_| byte()).collect();
        let scale = size * (1.0 + f32::from(byte()) / 256.0);
        block[at..at + 2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
        if let Some(offset) = offset {
            block[at + 2..at + 4].copy_from_slice(&f16::from_f32(scale * offset).to_le_bytes());
        }
        all.extend(block);
    }
    all
}

fn container(meta: &BTreeMap<String, Meta>, tensors: &[Stored]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((meta.len() as u64).to_le_bytes());
    for (key, value) in meta {
        text(&mut out, key);
        match value {
            Meta::Text(value) => {
                out.extend(8u32.to_le_bytes());
                text(&mut out, value);
            }
            Meta::Int(value) => [4, *value].iter().for_each(|v| out.extend(v.to_le_bytes())),
            Meta::Real(value) => [6, value.to_bits()].iter().for_each(|v| out.extend(v.to_le_bytes())),
            Meta::Gone | Meta::Tensor(_) => unreachable!("taken out before"),
        }
    }
    let mut offset = 0u64;
    for t in tensors {
        text(&mut out, &t.name);
        out.extend((t.shape.len() as u32).to_le_bytes());
        t.shape.iter().rev().for_each(|d| out.extend((*d as u64).to_le_bytes()));
        out.extend(t.kind.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset = (offset + t.bytes.len() as u64).next_multiple_of(32);
    }
    for t in tensors {
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&t.bytes);
    }
    out
}
