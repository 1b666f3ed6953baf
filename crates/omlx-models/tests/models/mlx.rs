//! Folders as mlx-lm packs them: the values they stand for against mlx-lm's logits, the packed kernels against those values.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use omlx_models::weights::Weights;
use omlx_models::{LoadOptions, load};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::run::{Run, argmax};

/// 4 bits in groups of 32; the router of the second in 8 bits and groups of 64.
const MODELS: [&str; 3] = ["llama_4bit", "qwen3_moe_4bit", "gemma3_sw8_4bit"];

fn folder(name: &str) -> PathBuf {
    omlx_fixtures::folder().join("mlx").join(name)
}

fn read(path: &Path) -> Map<String, Value> {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn ids(golden: &Map<String, Value>, key: &str) -> Vec<u32> {
    golden[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// A folder of the same values in f32, under the names that are published.
fn unpacked(name: &str) -> TempDir {
    let to = TempDir::new().unwrap();
    let weights = Weights::open(&folder(name), &Device::Cpu).unwrap();
    let tensors: HashMap<String, Tensor> = weights
        .exports()
        .unwrap()
        .iter()
        .map(|e| {
            let values = weights.values(e).unwrap();
            (e.name.clone(), Tensor::from_vec(values, e.shape.as_slice(), &Device::Cpu).unwrap())
        })
        .collect();
    candle_core::safetensors::save(&tensors, to.path().join("model.safetensors")).unwrap();
    let mut config = read(&folder(name).join("config.json"));
    config.retain(|key, _| !key.starts_with("quantization"));
    std::fs::write(to.path().join("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    to
}

#[test]
fn the_values_give_the_logits_of_mlx() {
    for name in MODELS {
        let golden = read(&folder(name).join("golden.json"));
        let prompt = ids(&golden, "prompt_ids");
        let dir = unpacked(name);
        let logits = Run::new(dir.path(), 4, 256).step(&prompt, prompt.len());
        for position in golden["positions"].as_array().unwrap() {
            let pos = position["pos"].as_u64().unwrap() as usize;
            let theirs = position["top20_logits"].as_array().unwrap();
            let largest = theirs[0].as_f64().unwrap().abs().max(1.0);
            for (id, theirs) in position["top20_ids"].as_array().unwrap().iter().zip(theirs) {
                let off = (f64::from(logits[pos][id.as_u64().unwrap() as usize]) - theirs.as_f64().unwrap()).abs();
                assert!(off < 1e-4 * largest, "{name}: position {pos}, id {id}: off by {off}");
            }
        }
    }
}

/// Whole, in chunks and token by token, beside the folder of the same values.
#[test]
fn packed_weights_give_the_logits_of_their_values() {
    for name in MODELS {
        let golden = read(&folder(name).join("golden.json"));
        let prompt = ids(&golden, "prompt_ids");
        let dir = unpacked(name);
        let theirs = Run::new(dir.path(), 4, 256).step(&prompt, prompt.len());
        let whole = Run::new(&folder(name), 4, 256).step(&prompt, prompt.len());
        for chunk in [1, 5, 13] {
            let mut run = Run::new(&folder(name), 4, 256);
            let rows: Vec<Vec<f32>> = prompt.chunks(chunk).flat_map(|part| run.step(part, part.len())).collect();
            assert!(rows == whole, "{name}: chunks of {chunk} move bits");
        }
        let off = |(ours, theirs): (&Vec<f32>, &Vec<f32>)| {
            let spread = theirs.iter().map(|t| t * t).sum::<f32>().sqrt();
            ours.iter().zip(theirs).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt() / spread
        };
        let off = whole.iter().zip(&theirs).map(off).sum::<f32>() / whole.len() as f32;
        // What rounding activations to eight bits does; a wrong order of codes moves them by most of their spread.
        assert!(off < 0.05, "{name}: off by {off} of the logits' spread");
    }
}

/// Ids of mlx-lm, as long as the best stands clear of the second.
#[test]
fn greedy_continuation() {
    for name in MODELS {
        let golden = read(&folder(name).join("golden.json"));
        let (prompt, greedy) = (ids(&golden, "prompt_ids"), ids(&golden, "greedy_ids"));
        let mut run = Run::new(&folder(name), 4, 256);
        let (mut last, mut compared) = (run.step(&prompt, 1).remove(0), 0);
        for (step, (theirs, margin)) in greedy.iter().zip(golden["greedy_margins"].as_array().unwrap()).enumerate() {
            if margin.as_f64().unwrap() > 0.5 {
                assert_eq!(argmax(&last), *theirs, "{name}: step {step}, margin {margin}");
                compared += 1;
            }
            last = run.step(&[*theirs], 1).remove(0);
        }
        assert!(compared >= 16, "{name}: only {compared} steps were compared");
    }
}

#[test]
fn the_card_tells_what_is_packed() {
    let options = LoadOptions { kv: DType::F32 };
    for name in MODELS {
        let card = load(&folder(name), &Device::Cpu, &options).unwrap().card;
        let unpacked = unpacked(name);
        assert_eq!(card.dtypes[0].0, "affine4", "{name}");
        assert_eq!(card.parameters, load(unpacked.path(), &Device::Cpu, &options).unwrap().card.parameters, "{name}");
    }
}

/// A config that does not fit its tensors, or says what is not known.
#[test]
fn faults_name_key_or_tensor() {
    let embed = "model.embed_tokens";
    for (key, value, expected) in [
        ("bits", json!(7), "`quantization.bits` is 7, expected one of [2, 3, 4, 5, 6, 8]"),
        ("group_size", json!(48), "`quantization.group_size` is 48, expected one of [32, 64, 128]"),
        ("mode", json!("nvfp4"), "`quantization.mode` is \"nvfp4\", which omlx does not know; known: affine"),
        (embed, json!({"bits": 1}), "`quantization.model.embed_tokens.bits` is 1"),
        (embed, json!({"mode": "mxfp4"}), "`quantization.model.embed_tokens.mode` is \"mxfp4\""),
        ("bits", json!(8), "model.embed_tokens.weight: expected [272, 16], file has [272, 8]"),
        ("group_size", json!(64), "model.embed_tokens.scales: expected [272, 1], file has [272, 2]"),
        ("group_size", json!(128), "model.embed_tokens.weight: 64 columns in groups of 128"),
        (embed, json!(false), "model.embed_tokens.weight"),
    ] {
        let dir = TempDir::new().unwrap();
        let mut config = read(&folder("llama_4bit").join("config.json"));
        config["quantization"][key] = value.clone();
        config.remove("quantization_config");
        std::fs::write(dir.path().join("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
        std::fs::copy(folder("llama_4bit").join("model.safetensors"), dir.path().join("model.safetensors")).unwrap();
        let error = load(dir.path(), &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
        assert!(error.contains(expected), "{key} {value}: {error}");
    }
}
