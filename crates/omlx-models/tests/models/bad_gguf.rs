//! GGUF files that must not load: each error names the file, the key or tensor, and the way out.

use std::fs;
use std::path::Path;

use candle_core::{DType, Device};
use omlx_fixtures::{RandomLlama, random_llama_gguf, tiny};
use omlx_models::{LoadOptions, load};
use tempfile::TempDir;

use crate::write::{Kind, Meta, of_folder};

#[track_caller]
fn refused(file: &Path, parts: &[&str]) {
    let said = load(file, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
    let file = file.file_name().unwrap().to_str().unwrap();
    for part in parts.iter().chain(&[file]) {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert_eq!(said.matches(file).count(), 1, "{said}");
}

#[test]
fn keys_that_are_absent() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("m.gguf");
    for key in [
        "general.architecture",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.context_length",
        "llama.attention.layer_norm_rms_epsilon",
    ] {
        random_llama_gguf(&file, &RandomLlama::default(), &[key]);
        refused(&file, &[&format!("key `{key}` is missing"), "take another conversion"]);
    }
}

#[test]
fn values_that_cannot_be() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("m.gguf");
    let cases = [
        ("general.architecture", Meta::Text("mamba"), "known: llama, qwen2, qwen3, qwen3moe, gemma2, gemma3, phi3"),
        ("general.alignment", Meta::Int(3), "a power of two"),
        ("general.alignment", Meta::Text("32"), "expected u32"),
        ("llama.block_count", Meta::Int(0), "1 to"),
        ("llama.block_count", Meta::Text("2"), "expected an unsigned integer"),
        ("llama.context_length", Meta::Int(0), "1 to"),
        ("llama.attention.head_count", Meta::Int(0), "1 to"),
        ("llama.embedding_length", Meta::Int(u32::MAX), "to"),
        ("llama.rope.freq_base", Meta::Real(f32::NAN), "NaN"),
        ("llama.rope.freq_base", Meta::Real(f32::INFINITY), "inf"),
        ("llama.rope.freq_base", Meta::Real(-1.0), "above zero"),
        ("llama.rope.scaling.type", Meta::Text("spiral"), "known: "),
        ("llama.attention.layer_norm_rms_epsilon", Meta::Real(f32::NAN), "NaN"),
    ];
    for (key, value, part) in cases {
        of_folder(&tiny("llama"), &file, Kind::Bf16, &[(key, value)]);
        refused(&file, &[key, part]);
    }
}

#[test]
fn files_that_were_cut_or_lie() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("m.gguf");
    of_folder(&tiny("llama"), &file, Kind::Bf16, &[]);
    let whole = fs::read(&file).unwrap();
    for (bytes, part) in [
        (0, "ends at byte 0"),
        (3, "ends at byte 3"),
        (20, "only 4 bytes of the file follow"),
        (300, "bytes"),
        (whole.len() - 100, "end past the file's"),
    ] {
        fs::write(&file, &whole[..bytes]).unwrap();
        refused(&file, &[part, "download"]);
    }
    let spoiled = |from: &str, to: &str| {
        let at = whole.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        fs::write(&file, bytes).unwrap();
    };
    spoiled("blk.0.attn_k.weight", "blk.0.attn_q.weight");
    refused(&file, &["tensor `blk.0.attn_q.weight` appears twice", "take another conversion"]);
    spoiled("blk.0.attn_k.weight", "blk.0.ghost_.weight");
    refused(&file, &["no tensor blk.0.attn_k.weight", "its metadata describes another model"]);
    spoiled("GGUF", "GGML");
    refused(&file, &["not a GGUF file", "download it again"]);
}
