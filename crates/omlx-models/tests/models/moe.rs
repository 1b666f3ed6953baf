//! Experts in the ways in which folders hold them, and which of their bytes a step goes over.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device};
use omlx_fixtures::{golden, tiny};
use omlx_models::{LoadOptions, load};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

use crate::run::Run;

const EXPERTS: usize = 6;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

fn tensors(folder: &Path) -> Tensors {
    let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter().map(|(name, t)| (name.to_owned(), (t.shape().to_vec(), t.data().to_vec()))).collect()
}

/// The tiny Qwen3-MoE with its tensors changed.
fn changed(change: impl Fn(&mut Tensors)) -> TempDir {
    let (from, to) = (tiny("qwen3_moe"), TempDir::new().unwrap());
    let mut all = tensors(&from);
    change(&mut all);
    let views =
        all.iter().map(|(name, (shape, data))| (name, TensorView::new(Dtype::BF16, shape.clone(), data).unwrap()));
    safetensors::serialize_to_file(views, None, &to.path().join("model.safetensors")).unwrap();
    std::fs::copy(from.join("config.json"), to.path().join("config.json")).unwrap();
    to
}

/// The matrices of all experts of layer 0 one behind another, taken out.
fn take(all: &mut Tensors, matrix: &str) -> (Vec<usize>, Vec<Vec<u8>>) {
    let name = |e| format!("model.layers.0.mlp.experts.{e}.{matrix}.weight");
    let taken: Vec<_> = (0..EXPERTS).map(|e| all.remove(&name(e)).unwrap()).collect();
    (taken[0].0.clone(), taken.into_iter().map(|(_, data)| data).collect())
}

/// `[E, W, H]` for each matrix, as MLX converts them.
fn as_mlx(all: &mut Tensors) {
    for matrix in ["gate_proj", "up_proj", "down_proj"] {
        let (shape, data) = take(all, matrix);
        let name = format!("model.layers.0.mlp.switch_mlp.{matrix}.weight");
        all.insert(name, ([&[EXPERTS], &*shape].concat(), data.concat()));
    }
}

/// `[E, 2 W, H]` for gate and up, `[E, H, W]` for down, neither with an ending: as transformers 5 holds them.
fn as_transformers(all: &mut Tensors) {
    let ((shape, gate), (_, up)) = (take(all, "gate_proj"), take(all, "up_proj"));
    let both = gate.iter().zip(&up).flat_map(|(gate, up)| [gate.as_slice(), up].concat()).collect();
    all.insert("model.layers.0.mlp.experts.gate_up_proj".into(), (vec![EXPERTS, 2 * shape[0], shape[1]], both));
    let (shape, down) = take(all, "down_proj");
    all.insert("model.layers.0.mlp.experts.down_proj".into(), ([&[EXPERTS], &*shape].concat(), down.concat()));
}

/// Seen to fail: an expert's slice taken one further.
#[test]
fn experts_in_one_tensor_give_the_same_bits() {
    let prompt = golden("qwen3_moe").prompt_ids;
    let apart = Run::new(&tiny("qwen3_moe"), 4, 64).step(&prompt, prompt.len());
    for (way, change) in [("MLX", as_mlx as fn(&mut Tensors)), ("transformers", as_transformers)] {
        let folder = changed(change);
        assert!(Run::new(folder.path(), 4, 64).step(&prompt, prompt.len()) == apart, "{way}");
    }
}

#[test]
fn a_tensor_of_too_few_experts_is_named() {
    let folder = changed(|all| {
        as_mlx(all);
        let (shape, data) = all.get_mut("model.layers.0.mlp.switch_mlp.up_proj.weight").unwrap();
        data.truncate(data.len() / EXPERTS * 5);
        shape[0] = 5;
    });
    let error = load(folder.path(), &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
    assert!(
        error.contains("layers.0.mlp.switch_mlp.up_proj.weight: expected [6, 32, 64], file has [5, 32, 64]"),
        "{error}"
    );
}

#[test]
fn an_expert_that_is_not_there_is_named() {
    let folder = changed(|all| drop(all.remove("model.layers.0.mlp.experts.4.up_proj.weight").unwrap()));
    let error = load(folder.path(), &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_err().to_string();
    assert!(error.contains("no tensor model.layers.0.mlp.experts.4.up_proj.weight"), "{error}");
}

/// A token alone goes over the bytes of its own experts and of no other, in every layer that has some.
#[test]
fn a_token_alone_reads_its_experts_only() {
    for (name, top) in [("mixtral", 2), ("qwen3_moe", 2), ("glm4_moe", 2), ("step3p5", 2), ("gpt_oss", 2)] {
        let prompt = golden(name).prompt_ids;
        let mut run = Run::new(&tiny(name), 4, 64);
        run.step(&prompt, 1);
        let read = |run: &Run| -> Vec<u64> { run.model.experts().map(omlx_ops::Experts::read_bytes).collect() };
        let before = read(&run);
        run.step(&[7], 1);
        assert!(!before.is_empty(), "{name}");
        for ((experts, before), after) in run.model.experts().zip(before).zip(read(&run)) {
            assert_eq!(after - before, (top * experts.bytes_of(0)) as u64, "{name}");
            assert!(experts.count() > top);
        }
    }
}
