//! Logits of tiny random models against transformers in f32, however the prompt is cut, over blocks of four.
//!
//! Faults seen to be caught here: window off by one either way, the 1 of 1 + w left out, query and key norm swapped, gate
//! and up swapped, Gemma's local rotary base in full layers too, Qwen2's biases left out, Llama 3's scaling ignored, Gemma's scores scaled by
//! the size of a head.

use std::path::Path;

use candle_core::Tensor;
use half::{bf16, f16};
use omlx_fixtures::{Golden, golden, tiny};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use tempfile::TempDir;

use crate::run::{Run, argmax, norm, vector};

/// Largest difference allowed, as a share of the largest logit.
const TOLERANCE: f32 = 1e-4;
const BLOCK: usize = 4;
const MODELS: [&str; 18] = [
    "llama",
    "llama3_rope",
    "mistral",
    "mistral_sw8",
    "qwen2",
    "gemma3_text",
    "gemma3_sw8",
    "gemma3_scale",
    "qwen3",
    "phi3",
    "phi3_long",
    "smollm3",
    "olmo2",
    "gemma2",
    "mixtral",
    "qwen3_moe",
    "glm4_moe",
    "step3p5",
];

/// Compares the logits of every position of the prompt that the reference wrote down.
pub(crate) fn check(name: &str, how: &str, golden: &Golden, logits: &[Vec<f32>]) {
    assert_eq!(logits.len(), golden.prompt_ids.len());
    for position in &golden.positions {
        let ours = &logits[position.pos];
        let largest = position.top20_logits[0].abs().max(1.0);
        for (id, theirs) in position.top20_ids.iter().zip(&position.top20_logits) {
            let off = (ours[*id as usize] - theirs).abs();
            assert!(off <= TOLERANCE * largest, "{name}, {how}: position {}, id {id}: off by {off}", position.pos);
        }
        let sum: f64 = ours.iter().map(|l| f64::from(*l)).sum();
        let off = (sum - position.sum).abs();
        assert!(
            off <= f64::from(TOLERANCE * largest) * 20.0,
            "{name}, {how}: position {}: sum off by {off}",
            position.pos
        );
    }
}

/// Logits of the whole prompt, fed in chunks whose lengths repeat.
fn logits(name: &str, prompt: &[u32], chunks: &[usize], block: usize) -> Vec<Vec<f32>> {
    let mut run = Run::new(&tiny(name), block, 256);
    let mut all = Vec::new();
    let (mut rest, mut chunks) = (prompt, chunks.iter().cycle());
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(*chunks.next().unwrap()));
        all.extend(run.step(now, now.len()));
        rest = later;
    }
    all
}

#[test]
fn whole_prompt() {
    for name in MODELS {
        let golden = golden(name);
        check(name, "whole", &golden, &logits(name, &golden.prompt_ids, &[1000], BLOCK));
    }
}

#[test]
fn token_by_token() {
    for name in MODELS {
        let golden = golden(name);
        check(name, "token by token", &golden, &logits(name, &golden.prompt_ids, &[1], BLOCK));
    }
}

#[test]
fn odd_chunks() {
    for name in MODELS {
        let golden = golden(name);
        for chunks in [&[3][..], &[7], &[1, 3, 7], &[5, 1, 11, 2], &[13, 4]] {
            check(name, &format!("chunks of {chunks:?}"), &golden, &logits(name, &golden.prompt_ids, chunks, BLOCK));
        }
    }
}

#[test]
fn other_block_sizes() {
    for name in MODELS {
        let golden = golden(name);
        for block in [1, 8, 64] {
            check(name, &format!("blocks of {block}"), &golden, &logits(name, &golden.prompt_ids, &[9, 2], block));
        }
    }
}

/// However a prompt is cut, the bits are the same.
#[test]
fn chunks_do_not_move_a_bit() {
    for name in MODELS {
        let prompt = golden(name).prompt_ids;
        let whole = logits(name, &prompt, &[1000], BLOCK);
        for chunks in [&[1][..], &[1, 3, 7]] {
            assert!(whole == logits(name, &prompt, chunks, BLOCK), "{name}, chunks of {chunks:?}");
        }
    }
}

/// Windows of 8 are crossed many times over: 48 tokens of prompt and 64 of answer.
#[test]
fn greedy_continuation() {
    for name in MODELS {
        let golden = golden(name);
        let mut run = Run::new(&tiny(name), BLOCK, 256);
        let (mut last, mut compared) = (run.step(&golden.prompt_ids, 1).remove(0), 0);
        for (step, (theirs, margin)) in golden.greedy_ids.iter().zip(&golden.greedy_margins).enumerate() {
            // Where the best two are that near either may win; the reference's is taken, and the rest compared.
            if *margin >= 1e-3 {
                assert_eq!(argmax(&last), *theirs, "{name}: step {step}, margin {margin}");
                compared += 1;
            }
            if step + 1 < golden.greedy_ids.len() {
                last = run.step(&[*theirs], 1).remove(0);
            }
        }
        assert!(compared * 10 >= golden.greedy_ids.len() * 9, "{name}: only {compared} steps were compared");
    }
}

/// The residual stream after the embedding and after each layer; the reference's last entry is after the last norm, which
/// the logits cover.
#[test]
fn residual_stream() {
    for name in MODELS {
        let golden = golden(name);
        let mut run = Run::new(&tiny(name), BLOCK, 256);
        let mut seen: Vec<Tensor> = Vec::new();
        run.step_tapped(&golden.prompt_ids, 1, &mut |_, x| {
            seen.push(x.clone());
            Ok(())
        });
        assert_eq!(seen.len(), golden.layers_last_position.len(), "{name}");
        let but_last = golden.layers_last_position.len() - 1;
        for (layer, (x, expected)) in seen.iter().zip(&golden.layers_last_position).take(but_last).enumerate() {
            let x = vector(&x.get(golden.prompt_ids.len() - 1).unwrap());
            let off = (norm(&x) / expected.l2 - 1.0).abs();
            assert!(off < 1e-4, "{name}: norm after layer {layer} off by {off}");
            for (ours, theirs) in x.iter().zip(&expected.first4) {
                assert!(
                    (ours - theirs).abs() <= 1e-4 * expected.l2 as f32,
                    "{name}: layer {layer}: {ours} and not {theirs}"
                );
            }
        }
    }
}

/// Rows of several sequences in one step: each as if alone, to the bit.
#[test]
fn a_row_in_a_crowd_equals_the_row_alone() {
    for name in MODELS {
        let prompt = golden(name).prompt_ids;
        let alone = |tokens: &[u32]| Run::new(&tiny(name), BLOCK, 256).step(tokens, 1).remove(0);
        let cuts = [&prompt[..], &prompt[..1], &prompt[5..22], &prompt[1..40]];
        let mut run = Run::new(&tiny(name), BLOCK, 256);
        let crowd = run.step_many(&cuts);
        for (row, tokens) in cuts.iter().enumerate() {
            assert!(crowd[row] == alone(tokens), "{name}: row {row}");
        }
    }
}

/// The same weights stored as f16 and f32, to which bf16 converts without loss at this size.
#[test]
fn other_float_types() {
    for name in ["llama", "qwen2", "gemma3_sw8"] {
        let golden = golden(name);
        for dtype in [Dtype::F16, Dtype::F32] {
            let folder = stored_as(&tiny(name), dtype);
            let mut run = Run::new(folder.path(), BLOCK, 256);
            let logits = run.step(&golden.prompt_ids, golden.prompt_ids.len());
            check(name, &format!("stored as {dtype}"), &golden, &logits);
        }
    }
}

/// A copy of a bf16 folder in another type.
fn stored_as(from: &Path, dtype: Dtype) -> TempDir {
    let to = TempDir::new().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "safetensors") {
            let bytes = std::fs::read(&path).unwrap();
            let file = SafeTensors::deserialize(&bytes).unwrap();
            let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = file
                .iter()
                .map(|(name, view)| {
                    assert_eq!(view.dtype(), Dtype::BF16);
                    let values = view.data().as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32());
                    let stored = match dtype {
                        Dtype::F16 => values.flat_map(|v| f16::from_f32(v).to_le_bytes()).collect(),
                        _ => values.flat_map(f32::to_le_bytes).collect(),
                    };
                    (name.to_owned(), view.shape().to_vec(), stored)
                })
                .collect();
            let views =
                tensors.iter().map(|(name, shape, data)| (name, TensorView::new(dtype, shape.clone(), data).unwrap()));
            safetensors::serialize_to_file(views, None, &to.path().join(path.file_name().unwrap())).unwrap();
        } else {
            std::fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    to
}
