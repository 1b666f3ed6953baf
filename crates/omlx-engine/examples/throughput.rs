//! Tokens per second of one model through the whole engine: prefill of one prompt, and decode of one or more streams at once.
//!
//! `cargo run --release -p omlx-engine --example throughput -- MODEL [prompt=512] [generate=64] [streams=1,8] [kv=f16] [threads=0]`
//!
//! Prints one JSON object. `pp` is prompt tokens over the time to the first token, of one prompt or (`pp_b`) of several of 128
//! tokens until the last one's first token; `tg_b` counts the tokens after that. `host_b` is the share of the steps in which
//! the model did not compute. `xtask bench` runs this beside llama.cpp.

use std::path::PathBuf;
use std::time::Instant;

use candle_core::{DType, Device};
use futures_util::{StreamExt, future};
use omlx_api::{EngineHandle, Event, Generate, Ticket};
use omlx_blocks::Salt;
use omlx_engine::{Config, Place, spawn};
use omlx_models::{LoadOptions, Model, load};

struct Options {
    model: PathBuf,
    prompt: usize,
    generate: usize,
    streams: Vec<usize>,
    kv: DType,
}

fn options() -> Result<Options, String> {
    let mut args = std::env::args().skip(1);
    let model = args.next().ok_or("name a model folder or a GGUF file")?.into();
    let mut options = Options { model, prompt: 512, generate: 64, streams: vec![1, 8], kv: DType::F16 };
    for arg in args {
        let (name, value) = arg.split_once('=').ok_or_else(|| format!("{arg}: not of the form name=value"))?;
        let number = || value.parse().map_err(|_| format!("{arg}: not a number"));
        match name {
            "prompt" => options.prompt = number()?,
            "generate" => options.generate = number()?,
            "threads" => omlx_ops::set_threads(number()?),
            "streams" => {
                let all = value.split(',').map(str::parse).collect::<Result<_, _>>();
                options.streams = all.map_err(|_| format!("{arg}: not numbers"))?;
            }
            "kv" => options.kv = value.parse().map_err(|_| format!("{arg}: f32, f16 or bf16"))?,
            _ => return Err(format!("{arg}: known are prompt, generate, streams, kv, threads")),
        }
    }
    Ok(options)
}

/// Ids that no earlier prompt began with, so that nothing comes from the prefix cache.
fn prompt(tokens: usize, vocab: usize, seed: u64) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % (vocab as u64 - 1000)) as u32 + 500
    };
    (0..tokens).map(|_| next()).collect()
}

async fn ask(engine: &EngineHandle, tokens: Vec<u32>, limit: usize) -> Ticket {
    engine.generate(Generate::new(tokens, limit)).await.expect("the engine takes the request")
}

/// When each token came.
async fn times(mut ticket: Ticket) -> Vec<Instant> {
    let mut times = Vec::new();
    while let Some(event) = ticket.next().await {
        match event {
            Event::Token { .. } => times.push(Instant::now()),
            Event::Done { .. } => {}
            Event::Failed(fault) => panic!("the engine failed: {fault:?}"),
        }
    }
    times
}

async fn prefill(engine: &EngineHandle, tokens: Vec<u32>) -> f64 {
    let (count, begin) = (tokens.len(), Instant::now());
    let times = times(ask(engine, tokens, 1).await).await;
    count as f64 / (times[0] - begin).as_secs_f64()
}

/// What several streams together came to.
struct Together {
    /// Prompt tokens per second, until the last stream's first token.
    prefill: f64,
    /// Tokens per second after that.
    decode: f64,
    /// Share of the steps in which the model did not compute.
    host: f64,
}

async fn together(engine: &EngineHandle, prompts: Vec<Vec<u32>>, generate: usize) -> Together {
    let (before, start, read) = (engine.snapshot(), Instant::now(), prompts.iter().map(Vec::len).sum::<usize>());
    let mut tickets = Vec::new();
    for tokens in prompts {
        tickets.push(times(ask(engine, tokens, generate).await));
    }
    let all = future::join_all(tickets).await;
    let begin = all.iter().map(|times| times[0]).max().expect("at least one stream");
    let end = all.iter().filter_map(|times| times.last()).max().expect("at least one token");
    let tokens: usize = all.iter().map(|times| times.iter().filter(|t| **t > begin).count()).sum();
    let after = engine.snapshot();
    let host = after.host_micros.saturating_sub(before.host_micros) as f64;
    let steps = after.step_micros.saturating_sub(before.step_micros) as f64;
    Together {
        prefill: read as f64 / (begin - start).as_secs_f64(),
        decode: tokens as f64 / (*end - begin).as_secs_f64(),
        host: host / steps.max(1.0),
    }
}

#[expect(clippy::print_stdout, reason = "its output is its purpose")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let begin = Instant::now();
    let loaded = load(&options.model, &Device::Cpu, &LoadOptions { kv: options.kv })?;
    let load_s = begin.elapsed().as_secs_f64();
    let vocab = loaded.model.vocab();
    let context = 2 * (options.prompt.max(128) + options.generate);
    let config = Config { context: Some(context), ..Config::new(2 << 30) };
    let engine = spawn(Box::new(loaded.model), Salt::of(&[]), &Device::Cpu, config, Place::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        prefill(&engine, prompt(64, vocab, 1)).await; // first touch of weights and pools
        let pp = prefill(&engine, prompt(options.prompt, vocab, 2)).await;
        let mut fields = vec![format!("\"load_s\":{load_s:.3},\"pp{}\":{pp:.1}", options.prompt)];
        for (i, streams) in options.streams.iter().enumerate() {
            let prompts = (0..*streams).map(|s| prompt(128, vocab, (1000 * (i + 1) + s) as u64)).collect();
            let Together { prefill, decode, host } = together(&engine, prompts, options.generate).await;
            fields.push(format!(
                "\"pp_b{streams}\":{prefill:.1},\"tg_b{streams}\":{decode:.1},\"host_b{streams}\":{host:.4}"
            ));
        }
        println!("{{{}}}", fields.join(","));
    });
    Ok(())
}
