//! gpt-oss: the values of its packed experts against transformers' logits, the packed kernels against those values.
//!
//! Faults seen to be caught: gate and up one above the other where their rows take turns; sinks left out.

use std::path::Path;

use candle_core::{DType, Device};
use omlx_fixtures::{golden, tiny};
use omlx_models::{LoadOptions, load};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::golden::check;
use crate::run::{Run, argmax};

const NAME: &str = "gpt_oss";
/// Floats of four bits, spelled out once more.
const FLOATS: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

fn config() -> Map<String, Value> {
    serde_json::from_slice(&std::fs::read(tiny(NAME).join("config.json")).unwrap()).unwrap()
}

fn write(folder: &Path, config: &Map<String, Value>) {
    std::fs::write(folder.join("config.json"), serde_json::to_vec(config).unwrap()).unwrap();
}

/// The values that blocks and exponents stand for.
fn values(blocks: &[u8], exponents: &[u8]) -> Vec<u8> {
    let float = |code: u8| FLOATS[usize::from(code & 7)] * if code > 7 { -1.0 } else { 1.0 };
    let block = |(block, exponent): (&[u8], &u8)| -> Vec<u8> {
        let scale = 2f32.powi(i32::from(*exponent) - 127);
        block.iter().flat_map(|b| [b & 15, b >> 4]).flat_map(|code| (scale * float(code)).to_le_bytes()).collect()
    };
    blocks.chunks(16).zip(exponents).flat_map(block).collect()
}

/// The same model with its experts in f32.
fn unpacked() -> TempDir {
    let to = TempDir::new().unwrap();
    let bytes = std::fs::read(tiny(NAME).join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut all: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    for (name, view) in file.iter().filter(|(name, _)| !name.ends_with("_scales")) {
        match name.strip_suffix("_blocks") {
            None => all.push((name.to_owned(), view.dtype(), view.shape().to_vec(), view.data().to_vec())),
            Some(stem) => {
                let scales = file.tensor(&format!("{stem}_scales")).unwrap();
                let [experts, rows, groups, _] = *view.shape() else { panic!("{name}") };
                let data = values(view.data(), scales.data());
                all.push((stem.to_owned(), Dtype::F32, vec![experts, rows, 32 * groups], data));
            }
        }
    }
    let views =
        all.iter().map(|(name, dtype, shape, data)| (name, TensorView::new(*dtype, shape.clone(), data).unwrap()));
    safetensors::serialize_to_file(views, None, &to.path().join("model.safetensors")).unwrap();
    let mut config = config();
    config.remove("quantization_config");
    write(to.path(), &config);
    to
}

fn logits(folder: &Path, prompt: &[u32], chunk: usize) -> Vec<Vec<f32>> {
    let mut run = Run::new(folder, 4, 256);
    prompt.chunks(chunk).flat_map(|part| run.step(part, part.len())).collect()
}

#[test]
fn the_values_give_the_logits_of_transformers() {
    let (golden, folder) = (golden(NAME), unpacked());
    for chunk in [1000, 1, 3, 7, 13] {
        check(NAME, &format!("chunks of {chunk}"), &golden, &logits(folder.path(), &golden.prompt_ids, chunk));
    }
}

/// The window of 8 is crossed many times over.
#[test]
fn greedy_continuation_of_the_values() {
    let (golden, folder) = (golden(NAME), unpacked());
    let mut run = Run::new(folder.path(), 4, 256);
    let mut last = run.step(&golden.prompt_ids, 1).remove(0);
    for (step, (theirs, margin)) in golden.greedy_ids.iter().zip(&golden.greedy_margins).enumerate() {
        assert!(*margin < 1e-3 || argmax(&last) == *theirs, "step {step}, margin {margin}");
        last = run.step(&[*theirs], 1).remove(0);
    }
}

#[test]
fn packed_experts_give_the_logits_of_their_values() {
    let prompt = golden(NAME).prompt_ids;
    let theirs = logits(unpacked().path(), &prompt, 1000);
    let whole = logits(&tiny(NAME), &prompt, 1000);
    for chunk in [1, 5, 13] {
        assert!(logits(&tiny(NAME), &prompt, chunk) == whole, "chunks of {chunk} move bits");
    }
    let off = |(ours, theirs): (&Vec<f32>, &Vec<f32>)| {
        let spread = theirs.iter().map(|t| t * t).sum::<f32>().sqrt();
        ours.iter().zip(theirs).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt() / spread
    };
    let off = whole.iter().zip(&theirs).map(off).sum::<f32>() / whole.len() as f32;
    assert!(off < 0.05, "off by {off} of the logits' spread");
    let alone = |tokens: &[u32]| Run::new(&tiny(NAME), 4, 256).step(tokens, 1).remove(0);
    let cuts = [&prompt[..], &prompt[..1], &prompt[5..22]];
    for (crowd, tokens) in Run::new(&tiny(NAME), 4, 256).step_many(&cuts).iter().zip(cuts) {
        assert!(*crowd == alone(tokens), "a row in a crowd");
    }
}

#[test]
fn the_card_tells_what_is_packed() {
    let card = load(&tiny(NAME), &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap().card;
    let plain = load(unpacked().path(), &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap().card;
    assert_eq!((card.arch, card.parameters), ("gpt_oss", plain.parameters));
    assert!(card.dtypes.iter().any(|(kind, _)| *kind == "mxfp4"), "{:?}", card.dtypes);
}

/// Blocks of which the config says nothing, and a config that does not fit them.
#[test]
fn faults_name_key_or_tensor() {
    let blocks = "model.layers.0.mlp.experts.gate_up_proj_blocks";
    for (key, value, expected) in [
        ("quantization_config", Value::Null, blocks),
        ("quantization_config", json!({"quant_method": "mxfp8"}), "`quantization_config.quant_method` is \"mxfp8\""),
        ("num_local_experts", json!(3), "model.layers.0.mlp.router.bias: expected [3], file has [4]"),
        ("swiglu_limit", json!(0), "`swiglu_limit` is 0"),
    ] {
        let dir = TempDir::new().unwrap();
        let mut config = config();
        config[key] = value.clone();
        write(dir.path(), &config);
        std::fs::copy(tiny(NAME).join("model.safetensors"), dir.path().join("model.safetensors")).unwrap();
        let error = load(dir.path(), &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
        assert!(error.contains(expected), "{key} {value}: {error}");
    }
}
