//! GGUF files: tiny ones written here from model folders, and real ones against the folders that another tool made of them.
//!
//! Faults seen to be caught here: query rows left in the file's order, 1 added to Gemma's norms twice.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Run, argmax};
use crate::write::{Kind, Meta, of_folder};
use candle_core::{DType, Device, Tensor};
use half::bf16;
use omlx_fixtures::{RandomLlama, golden, random_llama, real_gguf, real_golden, real_model, tiny};
use omlx_gguf::GgmlType;
use omlx_models::weights::Weights;
use omlx_models::{LoadOptions, load};
use tempfile::TempDir;

/// Same weights, same bits: the logits of a folder and of a GGUF file made of it.
#[test]
fn a_folder_and_its_gguf_agree_to_the_bit() {
    for name in [
        "llama",
        "qwen2",
        "qwen3",
        "gemma2",
        "gemma3_text",
        "gemma3_sw8",
        "phi3",
        "smollm3",
        "olmo2",
        "mixtral",
        "qwen3_moe",
        "glm4_moe",
    ] {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("tiny.gguf");
        of_folder(&tiny(name), &file, Kind::Bf16, &[]);
        let prompt = golden(name).prompt_ids;
        let theirs = Run::new(&tiny(name), 4, 64).step(&prompt, prompt.len());
        let ours = Run::new(&file, 4, 64).step(&prompt, prompt.len());
        assert!(ours == theirs, "{name}");
    }
}

/// LongRoPE's divisors are tensors of the file, and its partial rotation is a number of dimensions.
#[test]
fn longrope() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tiny.gguf");
    let config = Weights::open(&tiny("phi3_long"), &Device::Cpu).unwrap().config().keys().clone();
    let divisors = |key: &str| {
        let list = config["rope_scaling"][key].as_array().unwrap();
        Meta::Tensor(list.iter().map(|d| d.as_f64().unwrap() as f32).collect())
    };
    // sqrt(1 + ln(512 / 16) / ln 16), as the converter writes it
    let scaling = [
        ("rope_factors_long.weight", divisors("long_factor")),
        ("rope_factors_short.weight", divisors("short_factor")),
        ("phi3.rope.scaling.original_context_length", Meta::Int(16)),
        ("phi3.rope.scaling.attn_factor", Meta::Real(1.5)),
        ("phi3.rope.dimension_count", Meta::Int(12)),
        ("phi3.attention.sliding_window", Meta::Int(9)),
    ];
    of_folder(&tiny("phi3_long"), &file, Kind::Bf16, &scaling);
    let prompt = golden("phi3_long").prompt_ids;
    let theirs = Run::new(&tiny("phi3_long"), 4, 64).step(&prompt, prompt.len());
    assert!(Run::new(&file, 4, 64).step(&prompt, prompt.len()) == theirs);
}

#[test]
fn plain_types_and_blocks_load() {
    for (name, kind) in [
        ("llama", Kind::F32),
        ("llama", Kind::F16),
        ("llama", Kind::Q8),
        // Experts in one tensor, cut between blocks.
        ("qwen3_moe", Kind::F32),
        ("qwen3_moe", Kind::F16),
        ("qwen3_moe", Kind::Q8),
    ] {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("tiny.gguf");
        of_folder(&tiny(name), &file, kind, &[]);
        let golden = golden(name);
        let last = Run::new(&file, 4, 64).step(&golden.prompt_ids, 1).remove(0);
        // Eight bits move logits by a few hundredths; the first token stands well above the second.
        assert_eq!(argmax(&last), golden.greedy_ids[0], "{name}, {kind:?}");
    }
}

/// Each type of blocks, from the file to the logits, against a folder that holds the same values in f32.
///
/// What blocks mean is tested where they are read; here, that matrices, heads and halves of heads come to their places.
/// Seen to fail: query rows left in the file's order.
#[test]
fn every_block_type_gives_the_logits_of_its_values() {
    let source = TempDir::new().unwrap();
    random_llama(source.path(), &RandomLlama { heads: 16, kv_heads: 4, ..RandomLlama::default() });
    let prompt: Vec<u32> = (0..40).map(|n| n * 31 % 256).collect();
    use GgmlType::{Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    for kind in [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4K, Q5K, Q6K] {
        let dir = TempDir::new().unwrap();
        let (file, folder) = (dir.path().join("tiny.gguf"), dir.path().join("folder"));
        of_folder(source.path(), &file, Kind::Random(kind), &[]);
        let weights = Weights::open(&file, &Device::Cpu).unwrap();
        let tensors = weights.exports().unwrap();
        let tensors = tensors.iter().map(|e| {
            let values = Tensor::from_vec(weights.values(e).unwrap(), e.shape.as_slice(), &Device::Cpu).unwrap();
            (e.name.clone(), values)
        });
        let tensors: HashMap<String, Tensor> = tensors.collect();
        std::fs::create_dir(&folder).unwrap();
        std::fs::copy(source.path().join("config.json"), folder.join("config.json")).unwrap();
        candle_core::safetensors::save(&tensors, folder.join("model.safetensors")).unwrap();
        let theirs = Run::new(&folder, 8, 64).step(&prompt, prompt.len());
        let mut ours = Run::new(&file, 8, 64);
        // a step of many rows, then of a few, then of one: each has kernels of its own
        let mut rows = ours.step(&prompt[..30], 30);
        rows.extend(ours.step(&prompt[30..39], 9));
        rows.extend(ours.step(&prompt[39..], 1));
        let off = |(ours, theirs): (&Vec<f32>, &Vec<f32>)| {
            let spread = theirs.iter().map(|t| t * t).sum::<f32>().sqrt();
            ours.iter().zip(theirs).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt() / spread
        };
        // Activations in eight bits move them by some hundredths of their spread; a wrong order, by most of it.
        let off = rows.iter().zip(&theirs).map(off).sum::<f32>() / rows.len() as f32;
        assert!(off < 0.1, "{kind}: off by {off} of the logits' spread");
    }
}

#[test]
fn the_card_tells_what_is_stored() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tiny.gguf");
    of_folder(&tiny("llama"), &file, Kind::Q8, &[]);
    let card = load(&file, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap().card;
    assert_eq!((card.arch, card.dtypes[0].0, card.context, card.vocab), ("llama", "Q8_0", 512, 272));
    let folder = load(&tiny("llama"), &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap().card;
    assert_eq!(card.parameters, folder.parameters);
    assert_ne!(card.fingerprint, folder.fingerprint);
}

/// What a file says that is not understood, and what it does not say.
#[test]
fn faults_name_file_and_key() {
    let gone = |key: &'static str| (key, Meta::Gone);
    for (change, expected) in [
        (("general.architecture", Meta::Text("bert")), "`general.architecture` is \"bert\""),
        (gone("general.architecture"), "general.architecture"),
        (gone("llama.block_count"), "llama.block_count"),
        (gone("llama.attention.layer_norm_rms_epsilon"), "llama.attention.layer_norm_rms_epsilon"),
        (("llama.expert_count", Meta::Int(8)), "needs the key `llama.expert_used_count`"),
        (("llama.rope.dimension_count", Meta::Int(8)), "`llama.rope.dimension_count` is 8, expected the head size, 16"),
        (("llama.rope.scaling.type", Meta::Text("ntk")), "`llama.rope.scaling.type` is \"ntk\""),
        (
            ("llama.rope.scaling.type", Meta::Text("yarn")),
            "needs the key `llama.rope.scaling.factor`, which is absent; take another",
        ),
        (("llama.rope.freq_base", Meta::Real(f32::NAN)), "`llama.rope.freq_base` is \"NaN\""),
        (
            ("llama.attention.layer_norm_rms_epsilon", Meta::Real(f32::INFINITY)),
            "`llama.attention.layer_norm_rms_epsilon` is \"inf\"",
        ),
        (("llama.context_length", Meta::Int(0)), "`llama.context_length` is 0, expected 1 to 16777216"),
        (("llama.block_count", Meta::Int(0)), "`llama.block_count` is 0, expected 1 to 1024"),
        (
            ("llama.attention.head_count_kv", Meta::Int(3)),
            "`llama.attention.head_count_kv` is 3, expected a divisor of 4",
        ),
        (("llama.embedding_length", Meta::Int(128)), "expected [272, 128], file has [272, 64]; its metadata describes"),
        (("llama.block_count", Meta::Int(3)), "no tensor blk.2.attn_norm.weight; its metadata describes another model"),
        (("llama.block_count", Meta::Int(1)), "9 tensor(s) that a model of type llama has no place for"),
    ] {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("tiny.gguf");
        let name = change.0;
        of_folder(&tiny("llama"), &file, Kind::Bf16, &[change]);
        let error = load(&file, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("tiny.gguf"), "{name}: {error}");
        assert!(!error.contains("config.json"), "{name}: {error}");
    }
}

#[test]
fn experts_of_a_family_that_has_none_are_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tiny.gguf");
    of_folder(&tiny("qwen2"), &file, Kind::Bf16, &[("qwen2.expert_count", Meta::Int(8))]);
    let error = load(&file, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
    assert!(error.contains("`qwen2.expert_count` is 8, expected 0: experts are not supported"), "{error}");
}

#[test]
fn a_type_that_does_not_load_is_named() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tiny.gguf");
    of_folder(&tiny("llama"), &file, Kind::I8, &[]);
    let error = load(&file, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
    assert!(error.contains("token_embd.weight is stored as I8; loadable are F32"), "{error}");
}

#[test]
fn other_files_are_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("renamed.gguf");
    std::fs::copy(tiny("llama").join("model.safetensors"), &file).unwrap();
    let error = load(&file, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
    assert!(error.contains("renamed.gguf"), "{error}");
    of_folder(&tiny("llama"), &file, Kind::Bf16, &[]);
    let bytes = std::fs::read(&file).unwrap();
    for cut in [0, 3, 20, 200, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let error = load(&file, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
        assert!(error.contains("renamed.gguf"), "cut at {cut}: {error}");
    }
}

/// Llama 3.1's rotation is stored as a table of divisors; only the published one is understood.
#[test]
fn llama3_divisors() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tiny.gguf");
    let table = |turn: fn(f32) -> f32| -> Vec<f32> {
        let turns = |i: usize| 8192.0 / (std::f32::consts::TAU * 10_000f32.powf(i as f32 / 8.0));
        (0..8).map(|i| turn(turns(i))).collect()
    };
    let published = |turns: f32| match turns {
        4.0.. => 1.0,
        ..=1.0 => 8.0,
        _ => 1.0 / ((1.0 - (turns - 1.0) / 3.0) / 8.0 + (turns - 1.0) / 3.0),
    };
    of_folder(&tiny("llama"), &file, Kind::Bf16, &[("rope_freqs.weight", Meta::Tensor(table(published)))]);
    let weights = Weights::open(&file, &Device::Cpu).unwrap();
    let scaling = &weights.config().keys()["rope_scaling"];
    assert_eq!((scaling["rope_type"].as_str(), scaling["factor"].as_f64()), (Some("llama3"), Some(8.0)));
    of_folder(&tiny("llama"), &file, Kind::Bf16, &[("rope_freqs.weight", Meta::Tensor(table(|t| t.sqrt())))]);
    let error = Weights::open(&file, &Device::Cpu).unwrap_err().to_string();
    assert!(error.contains("rope_freqs.weight"), "{error}");
}

/// The magnitude that a YaRN file stores is the one of config.json; what has no counterpart there is refused unless it is neutral.
#[test]
fn yarn() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tiny.gguf");
    let base = || {
        vec![
            ("llama.rope.scaling.type", Meta::Text("yarn")),
            ("llama.rope.scaling.factor", Meta::Real(4.0)),
            ("llama.rope.scaling.original_context_length", Meta::Int(64)),
        ]
    };
    let open = |more: Vec<(&'static str, Meta)>| {
        let all: Vec<_> = base().into_iter().chain(more).collect();
        of_folder(&tiny("llama"), &file, Kind::Bf16, &all);
        Weights::open(&file, &Device::Cpu).map(|weights| weights.config().keys()["rope_scaling"].clone())
    };
    let neutral = ("llama.rope.scaling.attn_factor", Meta::Real(1.0));
    let scaling = open(vec![("llama.rope.scaling.yarn_attn_factor", Meta::Real(1.25)), neutral]).unwrap();
    assert_eq!((scaling["rope_type"].as_str(), scaling["attention_factor"].as_f64()), (Some("yarn"), Some(1.25)));
    assert!(open(vec![]).unwrap()["attention_factor"].is_null());
    for (key, found) in [
        ("llama.rope.scaling.attn_factor", 2.0),
        ("llama.rope.scaling.yarn_ext_factor", 0.5),
        ("llama.rope.scaling.yarn_log_multiplier", 0.1),
    ] {
        let error = open(vec![(key, Meta::Real(found))]).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(&found.to_string()) && error.contains("tiny.gguf"), "{error}");
    }
}

const REAL: [(&str, &str); 3] = [
    ("smollm2-135m-instruct", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    ("qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
    ("gemma-3-270m", "gemma-3-270m-q4_k_m.gguf"),
];

/// A real model's GGUF file and the folder that was made of it; none (or a failure, where models are required) if either is absent.
fn real(name: &str) -> Option<(PathBuf, PathBuf)> {
    let (_, file) = REAL.iter().find(|(n, _)| *n == name)?;
    Some((real_gguf(name, file)?, real_model(name)?))
}

fn every_weight_rounds_to_the_folders(name: &str) {
    let Some((file, folder)) = real(name) else { return };
    same_weights(&Weights::open(&file, &Device::Cpu).unwrap(), &Weights::open(&folder, &Device::Cpu).unwrap());
}

/// Tensor by tensor, rounded to bf16, bit by bit; but a zero of either sign is zero: `scale * code + bias` of a block with a
/// negative scale gives +0 where `scale * (code - 16)` gives -0.
fn same_weights(ours: &Weights, theirs: &Weights) {
    let (exports, expected) = (ours.exports().unwrap(), theirs.exports().unwrap());
    assert_eq!(exports.len(), expected.len());
    for (a, b) in exports.iter().zip(&expected) {
        assert_eq!((&a.name, &a.shape), (&b.name, &b.shape));
        let (x, y) = (ours.values(a).unwrap(), theirs.values(b).unwrap());
        let bits = |x: f32| if x == 0.0 { 0 } else { bf16::from_f32(x).to_bits() };
        let differ: Vec<_> = x.iter().zip(&y).filter(|(x, y)| bits(**x) != bits(**y)).take(3).collect();
        assert!(differ.is_empty(), "{}: {differ:?}", a.name);
    }
}

#[test]
fn smollm2_weights() {
    every_weight_rounds_to_the_folders("smollm2-135m-instruct");
}

#[test]
fn qwen2_weights() {
    every_weight_rounds_to_the_folders("qwen2.5-coder-0.5b-instruct");
}

#[test]
fn gemma3_weights() {
    every_weight_rounds_to_the_folders("gemma-3-270m");
}

/// The folder's weights are this file's rounded to bf16, which moves logits by a few hundredths: as long as the margins are
/// wide, the texts are the same.
#[test]
fn real_files_continue_like_their_folders() {
    for (name, _) in REAL {
        let Some((file, _)) = real(name) else { continue };
        let golden = real_golden(name).short.expect("a short prompt");
        let mut run = Run::new(&file, 64, 256);
        let (mut last, mut compared) = (run.step(&golden.prompt_ids, 1).remove(0), 0);
        for (step, (theirs, margin)) in golden.greedy_ids.iter().zip(&golden.greedy_margins).enumerate() {
            if *margin < 0.3 {
                break;
            }
            assert_eq!(argmax(&last), *theirs, "{name}: step {step}, margin {margin}");
            last = run.step(&[*theirs], 1).remove(0);
            compared += 1;
        }
        assert!(compared >= 8, "{name}: only {compared} steps were compared");
    }
}

fn example(name: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(example.is_file(), "build the examples first: cargo build --examples");
    Command::new(example)
}

/// The example, run as a user runs it; `cargo test` has built it beside this test.
#[test]
fn inspect_says_what_a_model_is() {
    let said = |name: &str| {
        let out = example("inspect").arg(tiny(name)).output().unwrap();
        assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    for (name, expected) in [
        ("llama", "layers 0-1\n  attention     4 heads of 16, 2 of keys and values, sees All\n"),
        // two layers, two heads, 16 numbers, key and value, four bytes each
        ("llama", "keys and values in F32: 512 bytes a token, and 0 KiB of windows"),
        ("gemma3_sw8", "layers 0, 2\n"),
        ("gemma3_sw8", "head: the embedding again"),
        ("qwen3_moe", "2 of 6 experts, 32 wide"),
        ("step3p5", "layers 2\n  attention     6 heads of 16, 2 of keys and values, sees Last(8), q/k norm, gate\n"),
        ("phi3_long", "rotation      12 of 16 dimensions, base 10000"),
    ] {
        let said = said(name);
        assert!(said.contains(expected), "{name}: {said}");
    }
    let out = example("inspect").arg(omlx_fixtures::folder()).output().unwrap();
    assert!(!out.status.success() && !out.stderr.is_empty(), "a folder that is no model");
}

/// The example, run as a user runs it.
#[test]
fn gguf_to_folder_writes_the_same_folder() {
    let Some((file, folder)) = real("smollm2-135m-instruct") else { return };
    let out = TempDir::new().unwrap();
    assert!(example("gguf_to_folder").arg(&file).arg(out.path()).status().unwrap().success());
    same_weights(&Weights::open(out.path(), &Device::Cpu).unwrap(), &Weights::open(&folder, &Device::Cpu).unwrap());
    for file in ["generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
        assert!(out.path().join(file).is_file(), "{file}");
    }
    load(out.path(), &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap();
}

/// NaN has no place in JSON, where it would count as absent: seen to load with the default in its place.
#[test]
fn gemma_refuses_numbers_that_are_none() {
    for key in ["gemma3.rope.freq_base_swa", "gemma3.final_logit_softcapping"] {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("tiny.gguf");
        of_folder(&tiny("gemma3_sw8"), &file, Kind::Bf16, &[(key, Meta::Real(f32::NAN))]);
        let error = load(&file, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}` is \"NaN\"")), "{error}");
    }
}
