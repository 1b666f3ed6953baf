//! Real models: a row in a crowd equals the row alone, bit for bit, on the CPU in f32.
//!
//! Fault seen to be caught: one output of a layer off by one unit in the last place, in every row but the first.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use candle_core::{DType, Device};
use omlx_api::{Generate, Sampling};
use omlx_engine::Config;
use omlx_fixtures::{real_gguf, real_model};
use omlx_models::{LoadOptions, load};

use crate::answer::{Dice, ask, block_on, engine, finish};
use crate::planted::{Fault, Planted, Watch};

/// A prompt of `tokens` beside three others, in other chunks.
fn crowd(path: &Path, tokens: usize) {
    let start = || {
        let loaded = load(path, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap();
        (loaded.model, loaded.card.vocab)
    };
    let request = |tokens: usize, seed: u64, vocab: usize| {
        let sampling = Sampling { temperature: 0.8, top_p: 0.95, seed, ..Sampling::default() };
        let prompt = Dice(seed).tokens(tokens, vocab);
        Generate { logprobs: Some(5), sampling, ..Generate::new(prompt, 6) }
    };
    let config = Config { rows: 8, ..Config::new(256 << 20) };
    let (model, vocab) = start();
    let alone = block_on(ask(&engine(model, config), request(tokens, 1, vocab)));
    let watch = Arc::new(Watch::default());
    let model = Planted { inner: start().0, fault: Fault::Nothing, at: |_| false, watch: Arc::clone(&watch) };
    let crowded = engine(model, Config { chunk_tokens: 33, ..config });
    let answer = block_on(async {
        let mut others = Vec::new();
        for (n, len) in [5, 70, 31].into_iter().enumerate() {
            others.push(crowded.generate(Generate { limit: 40, ..request(len, 2 + n as u64, vocab) }).await.unwrap());
        }
        let answer = ask(&crowded, request(tokens, 1, vocab)).await;
        for other in others {
            finish(other).await;
        }
        answer
    });
    assert_eq!(answer.bits(), alone.bits(), "{}", path.display());
    let rows = watch.most_rows.load(Ordering::SeqCst);
    assert!(rows > 3, "{}: never more than {rows} rows in one batch", path.display());
}

#[test]
fn smollm2_of_a_folder_in_a_crowd() {
    if let Some(path) = real_model("smollm2-135m-instruct") {
        crowd(&path, 90);
    }
}

#[test]
fn smollm2_of_a_gguf_in_a_crowd() {
    if let Some(path) = real_gguf("smollm2-135m-instruct", "SmolLM2-135M-Instruct.Q4_1.gguf") {
        crowd(&path, 90);
    }
}

/// Its window of 512 is crossed.
#[test]
fn gemma_3_of_a_gguf_in_a_crowd() {
    if let Some(path) = real_gguf("gemma-3-270m", "gemma-3-270m-q4_k_m.gguf") {
        crowd(&path, 520);
    }
}

#[test]
fn qwen2_5_of_a_gguf_in_a_crowd() {
    if let Some(path) = real_gguf("qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf") {
        crowd(&path, 60);
    }
}
