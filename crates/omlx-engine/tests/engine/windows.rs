//! Windows: who joins while another has just filled, passed or twice passed its window changes no logit of either; and a past that a window
//! has forgotten is never taken for one that is there.
//!
//! Logits are compared as the model gave them, every bit of every row of every step.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use candle_core::{Device, Result, Tensor};
use futures_util::StreamExt;
use omlx_api::{Event, Generate};
use omlx_engine::Config;
use omlx_fixtures::{RandomLlama, random_llama};
use omlx_kv::{Batch, KvCache, KvLayout};
use omlx_models::{LoadOptions, Model, load};

use crate::answer::{Dice, ask, block_on, engine, finish, settled};
use crate::planted::{Fault, Planted, Watch};

const WINDOW: usize = 32;

/// A row that wanted logits: the position of its last token, that token, and the logits' bits.
type Seen = (u32, u32, Vec<u32>);
/// For each step the rows' first and last positions.
type Steps = Vec<Vec<(u32, u32)>>;

/// A model, and all that it was asked and answered.
struct Recorded<M> {
    inner: M,
    seen: Arc<Mutex<(Vec<Seen>, Steps)>>,
}

impl<M: Model> Model for Recorded<M> {
    fn layout(&self) -> &KvLayout {
        self.inner.layout()
    }

    fn forward(&self, batch: &Batch, kv: &KvCache) -> Result<Tensor> {
        let logits = self.inner.forward(batch, kv)?;
        let rows = logits.to_vec2::<f32>()?;
        let mut seen = self.seen.lock().unwrap();
        seen.0.extend(batch.wanted.iter().zip(rows).map(|(&place, row)| {
            let bits = row.into_iter().map(f32::to_bits).collect();
            (batch.positions[place as usize], batch.tokens[place as usize], bits)
        }));
        let ends = batch.starts.windows(2).map(|w| (w[0] as usize, w[1] as usize - 1));
        seen.1.push(ends.map(|(first, last)| (batch.positions[first], batch.positions[last])).collect());
        Ok(logits)
    }

    fn vocab(&self) -> usize {
        self.inner.vocab()
    }

    fn context(&self) -> usize {
        self.inner.context()
    }
}

struct Rig {
    engine: omlx_api::EngineHandle,
    watch: Arc<Watch>,
    seen: Arc<Mutex<(Vec<Seen>, Steps)>>,
}

fn rig(shape: &RandomLlama, block: usize) -> Rig {
    rig_of(shape, Config { block, rows: 4, ..Config::new(16 << 20) })
}

fn rig_of(shape: &RandomLlama, config: Config) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    random_llama(dir.path(), shape);
    let inner = load(dir.path(), &Device::Cpu, &LoadOptions { kv: candle_core::DType::F32 }).unwrap().model;
    let (seen, watch) = (Arc::default(), Arc::new(Watch::default()));
    let model = Recorded { inner, seen: Arc::clone(&seen) };
    let model = Planted { inner: model, fault: Fault::Nothing, at: |_| false, watch: Arc::clone(&watch) };
    Rig { engine: engine(model, config), watch, seen }
}

/// FX-RS, the same with its layers swapped, and with a window in both.
fn shapes() -> [RandomLlama; 3] {
    let swapped = RandomLlama { windows: vec![None, Some(WINDOW)], ..RandomLlama::windowed() };
    [RandomLlama::windowed(), swapped, RandomLlama::all_windowed()]
}

fn request(salt: u64, prompt: usize, limit: usize) -> Generate {
    Generate::new(Dice(salt).tokens(prompt, 256), limit)
}

/// All rows that a request alone in a new engine wants logits for.
fn lone(shape: &RandomLlama, block: usize, request: Generate) -> Vec<Seen> {
    let rig = rig(shape, block);
    block_on(ask(&rig.engine, request));
    std::mem::take(&mut rig.seen.lock().unwrap().0)
}

/// The second request's first step comes when exactly `at` tokens of the first one are in the cache.
#[track_caller]
fn check(shape: &RandomLlama, block: usize, at: usize, prompts: [usize; 2], limits: [usize; 2]) {
    let [first, second] = [0, 1].map(|n| move || request(7 + n as u64, prompts[n], limits[n]));
    let Rig { engine, watch, seen } = rig(shape, block);
    block_on(async {
        // The prompt is in the cache after the first step, and each further one adds a token. The step after the allowed ones is planned
        // already and waits at the gate when the second one comes.
        watch.allow(at - prompts[0]);
        let mut one = engine.generate(first()).await.unwrap();
        for _ in 0..at - prompts[0] {
            assert!(matches!(one.next().await, Some(Event::Token { .. })));
        }
        while watch.arrived.load(Ordering::SeqCst) == at - prompts[0] {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let two = engine.generate(second()).await.unwrap();
        watch.allow(usize::MAX);
        let (one, two) = tokio::join!(finish(one), finish(two));
        assert!(matches!(one.end, Event::Done { .. }) && matches!(two.end, Event::Done { .. }), "{one:?} {two:?}");
        settled(&engine).await;
    });
    let (mut found, steps) = std::mem::take(&mut *seen.lock().unwrap());
    let joined = steps.iter().find(|rows| rows.len() == 2).expect("they met");
    let join = joined.contains(&(at as u32, at as u32)) && joined.contains(&(0, prompts[1] as u32 - 1));
    assert!(join, "they met at {joined:?}, not at {at}");
    let mut alone = lone(shape, block, first());
    alone.extend(lone(shape, block, second()));
    found.sort();
    alone.sort();
    assert!(found == alone, "{:?}, blocks of {block}, joined at {at}, prompts of {prompts:?}", shape.windows);
}

/// BAT-1. Seen to fail: `Reach::first_visible` one too high; windows that forget a block early; a row's count of forgotten blocks taken from
/// its neighbour.
#[test]
fn bat_1_joining_at_the_edges_of_a_window() {
    for shape in shapes() {
        for block in [16, 12] {
            for at in [WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 2 * WINDOW + 1] {
                check(&shape, block, at, [20, 5], [100, 60]);
            }
        }
    }
}

#[test]
fn bat_1_two_that_have_both_passed_it_and_one_goes_on() {
    for shape in shapes() {
        // The first ends and the second goes on, and the other way round.
        check(&shape, 16, 2 * WINDOW + 1, [50, 50], [40, 90]);
        check(&shape, 16, 2 * WINDOW + 1, [50, 70], [140, 12]);
        check(&shape, 12, 3 * WINDOW, [50, 2 * WINDOW], [60, 100]);
    }
}

/// PFX-2: a long answer, then a request that shares its start, again, and the first one again: each as in a cold engine. Answers how much of
/// each prompt was cached.
#[track_caller]
fn four_requests(shape: &RandomLlama, config: Config) -> Vec<usize> {
    let a = Dice(3).tokens(100, 256);
    let b = [&a[..40], &Dice(4).tokens(10, 256)].concat();
    let rig = rig_of(shape, config);
    let mut cached = Vec::new();
    for prompt in [&a, &b, &b, &a] {
        rig.seen.lock().unwrap().0.clear();
        let got = block_on(ask(&rig.engine, Generate::new(prompt.clone(), 80)));
        cached.push(got.usage().cached);
        let found = std::mem::take(&mut rig.seen.lock().unwrap().0);
        assert!(found == lone(shape, 16, Generate::new(prompt.clone(), 80)), "{:?}: {cached:?}", shape.windows);
    }
    cached
}

#[test]
fn pfx_2_a_shorter_start_a_longer_one_and_back() {
    for shape in shapes() {
        let cached = four_requests(&shape, Config { block: 16, rows: 4, ..Config::new(16 << 20) });
        assert_eq!(cached, [0, 32, 48, 96], "where nothing has to go, all whole blocks are found: {:?}", shape.windows);
    }
}

/// What a window has left behind is gone soon, and the full layers' blocks stay: then there is nothing to start from.
/// Seen to fail: a hit that asks the first group only.
#[test]
fn pfx_2_where_what_a_window_left_behind_is_gone() {
    for shape in shapes() {
        let config = Config { block: 16, rows: 1, chunk_tokens: 32, step_tokens: 32, ..Config::new(16 << 20) };
        let cached = four_requests(&shape, config);
        assert_eq!(cached[1], 0, "{:?}: {cached:?}", shape.windows);
        assert!(cached.iter().all(|tokens| tokens.is_multiple_of(16)));
    }
}
