//! Crowd: a row in any company, at any chunk size, equals the row alone, bit for bit, on the CPU in f32.
//!
//! Company is arranged with the gate of `planted.rs`: while it is shut the engine cannot step, so it is certain who
//! arrives in the same step. Fault seen to be caught: rows drawn in reverse order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use omlx_api::{EngineHandle, Event, Generate, Sampling};
use omlx_engine::Config;

use crate::answer::{Answer, Dice, ask, block_on, engine, finish, settled, tiny};
use crate::planted::{Fault, Planted, Watch};

const MODELS: [&str; 3] = ["llama", "gemma3_sw8", "qwen2"];

fn config() -> Config {
    Config { block: 16, rows: 8, ..Config::new(16 << 20) }
}

/// The request that is watched: seven tokens, every log-probability that matters.
fn watched(temperature: f32) -> Generate {
    let sampling = Sampling { temperature, top_p: 0.95, seed: 42, ..Sampling::default() };
    Generate { logprobs: Some(5), sampling, ..Generate::new(vec![256, 72, 101, 108, 108, 111, 32], 24) }
}

fn neighbour(n: usize, tokens: usize) -> Generate {
    let prompt = Dice(1_000 + n as u64).tokens(tokens, 256);
    let sampling = Sampling { temperature: 1.0, seed: n as u64, ..Sampling::default() };
    Generate { sampling, ..Generate::new(prompt, 60) }
}

enum Company {
    SameStep,
    /// Neighbours join after this many tokens of the watched row.
    After(usize),
    /// The watched row joins neighbours that already decode.
    Joins,
}

async fn in_company(engine: &EngineHandle, watch: &Watch, others: &[usize], how: &Company) -> Vec<Answer> {
    let others = others.iter().enumerate();
    let neighbours: Vec<Generate> = others.map(|(n, &len)| neighbour(n, len)).collect();
    let mut tickets = Vec::new();
    watch.allow(0);
    match how {
        Company::SameStep => {
            // A sleeping engine may take the first request alone: the decoy. The others stand in the mailbox together.
            let decoy = engine.generate(Generate::new(vec![1], 1)).await.unwrap();
            let mine = engine.generate(watched(0.0)).await.unwrap();
            for request in neighbours {
                tickets.push(engine.generate(request).await.unwrap());
            }
            watch.allow(usize::MAX);
            finish(decoy).await;
            rest(finish(mine).await, tickets).await
        }
        Company::After(tokens) => {
            let mut mine = engine.generate(watched(0.0)).await.unwrap();
            watch.allow(*tokens);
            let mut seen = Vec::new();
            for _ in 0..*tokens {
                seen.push(mine.next().await.unwrap());
            }
            for request in neighbours {
                tickets.push(engine.generate(request).await.unwrap());
            }
            watch.allow(usize::MAX);
            let mut answer = finish(mine).await;
            for event in seen.into_iter().rev() {
                let Event::Token { id, logprobs } = event else { panic!("{event:?}") };
                answer.ids.insert(0, id);
                answer.logprobs.splice(0..0, logprobs);
            }
            rest(answer, tickets).await
        }
        Company::Joins => {
            for request in neighbours {
                tickets.push(engine.generate(request).await.unwrap());
            }
            watch.allow(4); // the first one's prompt, then all others', and two tokens more
            for ticket in &mut tickets {
                assert!(matches!(ticket.next().await, Some(Event::Token { .. })));
            }
            let mine = engine.generate(watched(0.0)).await.unwrap();
            watch.allow(usize::MAX);
            rest(finish(mine).await, tickets).await
        }
    }
}

async fn rest(mine: Answer, crowd: Vec<omlx_api::Ticket>) -> Vec<Answer> {
    let mut answers = vec![mine];
    for ticket in crowd {
        answers.push(finish(ticket).await);
    }
    answers
}

/// BAT-2: neighbours of 7, 8, 40 and 120 tokens; 2, 3 and 8 rows; at the same time and late.
fn crowd(name: &str) {
    let alone = block_on(ask(&engine(tiny(name), config()), watched(0.0)));
    assert_eq!(alone.logprobs.len(), 24);
    let companies: [&[usize]; 7] = [&[7], &[8], &[40], &[120], &[40, 7], &[120, 8], &[7, 8, 40, 120, 7, 40, 120]];
    for others in companies {
        for how in [Company::SameStep, Company::After(1), Company::After(9), Company::Joins] {
            // A new engine: an answer from the prefix cache would prove less.
            let watch = Arc::new(Watch::default());
            let model = Planted { inner: tiny(name), fault: Fault::Nothing, at: |_| false, watch: Arc::clone(&watch) };
            let engine = engine(model, config());
            let answers = block_on(in_company(&engine, &watch, others, &how));
            assert_eq!(answers[0].bits(), alone.bits(), "{name} beside {others:?}");
            let rows = watch.most_rows.load(Ordering::SeqCst);
            assert!(rows > others.len(), "never more than {rows} in one batch");
        }
    }
}

#[test]
fn llama_in_a_crowd() {
    crowd("llama");
}
#[test]
fn gemma_in_a_crowd() {
    crowd("gemma3_sw8");
}
#[test]
fn qwen_in_a_crowd() {
    crowd("qwen2");
}

/// BAT-4: prompt of 100 through a window of 8; chunks of any size, with and without a cached prefix.
#[test]
fn chunk_sizes_and_cached_prefixes_do_not_show() {
    for name in MODELS {
        let prompt = Dice(9).tokens(100, 256);
        let request = || Generate { logprobs: Some(5), ..Generate::new(prompt.clone(), 12) };
        let whole = block_on(ask(&engine(tiny(name), config()), request()));
        for chunk_tokens in [1, 7, 8, 9, 31, 32, 33, 64, 100] {
            for prefix in [0, 16, 17, 31, 48, 50] {
                let engine = engine(tiny(name), Config { chunk_tokens, ..config() });
                block_on(async {
                    if prefix > 0 {
                        ask(&engine, Generate::new(prompt[..prefix].to_vec(), 1)).await;
                    }
                    let got = ask(&engine, request()).await;
                    assert_eq!(got.usage().cached, prefix);
                    assert_eq!(got.bits(), whole.bits(), "{name}, chunks of {chunk_tokens}, {prefix} cached");
                });
            }
        }
    }
}

/// The same seed gives the same answer, in company or not, parked or not; another seed gives another.
#[test]
fn draws_are_keyed_by_seed_and_position() {
    for name in MODELS {
        let alone = block_on(ask(&engine(tiny(name), config()), watched(1.0)));
        // Room for two and a half of the eight: most are parked and come back.
        let tight = Config { kv_bytes: 0, chunk_tokens: 32, ..config() };
        let model = tiny(name);
        let layout = omlx_models::Model::layout(&model);
        let bytes: u64 = (0..layout.groups.len()).map(|g| layout.block_bytes(g, tight.block)).sum();
        let engine = engine(tiny(name), Config { kv_bytes: bytes * 13, ..tight });
        block_on(async {
            let crowd = [40, 100, 7, 8, 40, 100, 7].into_iter().enumerate();
            let crowd: Vec<Generate> = crowd.map(|(n, len)| neighbour(n, len)).collect();
            let mut tickets = Vec::new();
            for request in crowd {
                tickets.push(engine.generate(request).await.unwrap());
            }
            let mine = ask(&engine, watched(1.0)).await;
            let mut other = watched(1.0);
            other.sampling.seed += 1;
            let other = ask(&engine, other).await;
            for ticket in tickets {
                finish(ticket).await;
            }
            assert_eq!(mine.bits(), alone.bits(), "{name}");
            assert_ne!(other.ids, alone.ids, "{name}");
            settled(&engine).await;
        });
    }
}

/// API-6: log-probabilities are raw; they do not move with temperature and filters.
#[test]
fn logprobs_are_the_models_own() {
    let engine = engine(tiny("llama"), config());
    block_on(async {
        let cold = ask(&engine, watched(0.0)).await;
        let mut hot = watched(1.0);
        hot.sampling.top_k = 1;
        let hot = ask(&engine, hot).await;
        assert_eq!(cold.bits(), hot.bits(), "top-k of 1 at any temperature is greedy");
        for (id, logprobs) in cold.ids.iter().zip(&cold.logprobs) {
            assert_eq!(logprobs.top.len(), 5);
            assert_eq!(logprobs.top[0], (*id, logprobs.chosen));
            assert!(logprobs.top.windows(2).all(|w| w[0].1 >= w[1].1));
            assert!(logprobs.chosen <= 0.0);
        }
    });
}
