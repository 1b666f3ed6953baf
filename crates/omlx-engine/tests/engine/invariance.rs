//! Batch invariance: random crowds of 2 to 16 with other lengths, samplers and urgencies, in steps, chunks, blocks and pools of
//! any size; each answers as it would alone in a large cache, bit for bit, ids and log-probabilities.
//!
//! Models with full attention, with windows (of 8, crossed many times) and with both. Faults seen to be caught: a draw's
//! position taken from the chunk; penalties that know only the tokens of this step (they differ where a row was parked); rows
//! drawn in reverse order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use omlx_api::{Generate, Priority};
use omlx_engine::Config;
use omlx_models::Model;

use crate::answer::{Dice, ask, block_on, engine, finish, settled, tiny};
use crate::mix::sampling;
use crate::planted::{Fault, Planted, Watch};

const LONGEST: usize = 150;
const MOST_NEW: usize = 24;

/// What a request's place in its crowd comes to; the same each time it is asked for.
fn request(crowd: u64, place: u64) -> Generate {
    let mut dice = Dice(crowd * 1_000 + place);
    dice.roll(2); // the first roll of neighbouring seeds is much the same
    let stem = dice.roll(3) as u64;
    let len = *dice.pick(&[1, 5, 7, 8, 9, 16, 17, 31, 40, 64, 100, LONGEST]);
    let sampling = sampling(dice.roll(8), place);
    let priority = *dice.pick(&[Priority::Interactive, Priority::Interactive, Priority::Batch]);
    let limit = 3 + dice.roll(MOST_NEW - 2);
    let prompt = Dice(77 + stem).tokens(len, 256);
    Generate { sampling, priority, logprobs: Some(5), ..Generate::new(prompt, limit) }
}

/// Limits of any size; a tight pool holds little more than the longest request.
fn limits(model: &impl Model, dice: &mut Dice, rows: usize, tight: bool) -> Config {
    // In large blocks a row seldom outgrows what it was admitted with, and nobody is parked.
    let block = *dice.pick(if tight { &[1, 4, 8] } else { &[4, 16, 64] });
    let step_tokens = *dice.pick(&[7, 24, 64, 200, 512]);
    let chunk_tokens = *dice.pick(&[1, 8, 9, 33, 512]);
    let config = Config { block, step_tokens, chunk_tokens, rows, head_start: dice.roll(30), ..Config::new(0) };
    let row: u64 = (0..model.layout().groups.len()).map(|g| model.layout().block_bytes(g, block)).sum();
    let enough = |kv_bytes: &u64| {
        let fit = Config { kv_bytes: *kv_bytes, ..config }.fit(model);
        fit.is_ok_and(|fit| fit.context.min(fit.capacity) >= LONGEST + MOST_NEW)
    };
    let kv_bytes = if tight { (1..).map(|n| n * row).find(|bytes| enough(bytes)).unwrap_or(0) } else { 64 << 20 };
    Config { kv_bytes, ..config }
}

/// What a crowd turned out to be.
struct Met {
    /// More than one row in a batch: the tightest pools have room for one.
    company: bool,
    /// More tokens were computed than answers needed.
    parked: bool,
}

/// Runs one crowd.
fn crowd(name: &str, number: u64) -> Met {
    let mut dice = Dice(number);
    dice.roll(2);
    let places = 2 + dice.roll(15) as u64;
    let tight = number.is_multiple_of(2);
    let model = tiny(name);
    let rows = 2 + dice.roll(15);
    let config = limits(&model, &mut dice, rows, tight);
    let watch = Arc::new(Watch::default());
    let model = Planted { inner: model, fault: Fault::Nothing, at: |_| false, watch: Arc::clone(&watch) };
    let together = engine(model, config);
    let mut needed = 0;
    block_on(async {
        watch.allow(0);
        let mut tickets = Vec::new();
        for place in 0..places {
            tickets.push(together.generate(request(number, place)).await.unwrap());
        }
        watch.allow(usize::MAX);
        let answers = join_all(tickets.into_iter().map(finish)).await;
        for (place, got) in (0..).zip(answers) {
            // A new engine each: an answer from the prefix cache would prove less.
            let alone = engine(tiny(name), Config { rows: 1, ..Config::new(64 << 20) });
            let want = ask(&alone, request(number, place)).await;
            assert_eq!(got.bits(), want.bits(), "{name}, crowd {number}, place {place} of {places}, {config:?}");
            let usage = got.usage();
            needed += usage.prompt - usage.cached + usage.completion - 1;
        }
        settled(&together).await;
    });
    let computed: usize = watch.sizes.lock().unwrap().iter().sum();
    Met { company: watch.most_rows.load(Ordering::SeqCst) > 1, parked: computed > needed }
}

fn crowds(name: &str, first: u64) {
    let met: Vec<Met> = (first..first + 16).map(|number| crowd(name, number)).collect();
    let (company, parked) = (met.iter().filter(|m| m.company).count(), met.iter().filter(|m| m.parked).count());
    assert!(company > 10 && parked > 0, "{name}: {company} crowds had company, {parked} parked somebody");
}

#[test]
fn full_attention() {
    crowds("llama", 100);
}
#[test]
fn scaled_rope() {
    crowds("llama3_rope", 200);
}
#[test]
fn biases() {
    crowds("qwen2", 300);
}
#[test]
fn windows() {
    crowds("mistral_sw8", 400);
}
#[test]
fn windows_and_full_layers_mixed() {
    crowds("gemma3_sw8", 500);
}
