//! Answers to prompts of token ids, with the times that matter.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::http;
use crate::shell::{Done, Failed};

/// How long an answer may take on a slow machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Ids that differ from those of every other seed at the first place.
pub(super) fn prompt(tokens: usize, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        500 + state % 40_000
    };
    std::iter::once(500 + seed).chain(std::iter::from_fn(|| Some(next()))).take(tokens).collect()
}

/// Who is asked: a server's port and the name of its model.
#[derive(Clone, Copy)]
pub(super) struct Served<'a> {
    pub(super) port: u16,
    pub(super) model: &'a str,
}

/// Seconds to the answer of one token, and how many of the prompt's were not computed.
pub(super) fn first_token(served: Served<'_>, prompt: &[u64]) -> Done<(f64, u64)> {
    let body = json!({"model": served.model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "ignore_eos": true});
    let begin = Instant::now();
    let answer = http::request(served.port, "POST", "/v1/completions", &body.to_string())?;
    let took = begin.elapsed().as_secs_f64();
    let usage = &answer["usage"];
    let (read, cached) = (&usage["prompt_tokens"], &usage["prompt_tokens_details"]["cached_tokens"]);
    match (read.as_u64(), cached.as_u64()) {
        (Some(read), Some(cached)) if read == prompt.len() as u64 => Ok((took, cached)),
        _ => Err(Failed::new(format!("not the usage of a prompt of {} tokens: {usage}", prompt.len()))),
    }
}

/// Pieces per second of several streams together, from when the last one has its first token to the end of the last one.
pub(super) fn decode(served: Served<'_>, prompts: &[Vec<u64>], tokens: usize) -> Done<f64> {
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = prompts.iter().map(|prompt| scope.spawn(move || times(served, prompt, tokens))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Done<Vec<Instant>>>| {
            thread.join().unwrap_or_else(|_| Err(Failed::new("a client panicked")))
        };
        threads.into_iter().map(join).collect::<Done<Vec<_>>>()
    })?;
    rate(&all).ok_or_else(|| Failed::new("the streams brought no tokens at the same time"))
}

pub(super) fn rate(all: &[Vec<Instant>]) -> Option<f64> {
    let begin = all.iter().filter_map(|times| times.first()).max()?;
    let end = all.iter().filter_map(|times| times.last()).max()?;
    let tokens: usize = all.iter().map(|times| times.iter().filter(|time| *time > begin).count()).sum();
    (tokens > 0).then(|| tokens as f64 / (*end - *begin).as_secs_f64())
}

/// When each piece of a stream came: a token, or a few that make text only together. Greedy answers to one prompt are the same
/// everywhere, so the pieces of two servers can be compared.
fn times(served: Served<'_>, prompt: &[u64], tokens: usize) -> Done<Vec<Instant>> {
    let Served { port, model } = served;
    let failed = |e: std::io::Error| Failed::new(format!("a stream: {e}"));
    let body = json!({"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true, "stream": true});
    let socket = http::send(port, "POST", "/v1/completions", &body.to_string(), LIMIT)?;
    let mut times = Vec::new();
    for line in BufReader::new(socket).lines() {
        let line = line.map_err(failed)?;
        let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "[DONE]") else { continue };
        let event: Value = serde_json::from_str(data).map_err(|e| Failed::new(format!("a stream: {e}: {data}")))?;
        if event["choices"][0]["text"].as_str().is_some_and(|text| !text.is_empty()) {
            times.push(Instant::now());
        }
    }
    Ok(times)
}
