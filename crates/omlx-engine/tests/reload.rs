//! LIFE-5: thirty times loaded, used and unloaded, and the process takes what it took. Alone in its binary, so that no other test's memory
//! is counted.
//!
//! Faults seen to be caught: pools freed without being given back; pools that are not given back when they are made (an allocator has
//! cleared them by hand); 8 MiB lost every few rounds.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::{Duration, Instant};

use candle_core::{DType, Device};
use futures_util::StreamExt;
use omlx_api::{Event, Generate};
use omlx_blocks::Salt;
use omlx_engine::guard::{Guard, Limits, Meter, System};
use omlx_engine::{Config, Place, spawn};
use omlx_fixtures::{RandomLlama, random_llama};
use omlx_models::{LoadOptions, load};

const MIB: u64 = 1 << 20;
const ROUNDS: usize = 30;

fn used() -> u64 {
    System.measure().unwrap().footprint_bytes
}

/// Loads, answers a prompt of a thousand tokens, unloads; answers what the process takes before the last of these.
fn round(dir: &Path, guard: &std::sync::Arc<Guard>, runtime: &tokio::runtime::Runtime) -> u64 {
    let loaded = load(dir, &Device::Cpu, &LoadOptions { kv: DType::F16 }).unwrap();
    // chunks of a size that does not depend on how fast the machine is: a larger step takes more
    let config = Config { step_time: None, ..Config::new(64 * MIB) };
    let fit = config.fit(&loaded.model).unwrap();
    let promise = guard.promise(loaded.card.weight_bytes + fit.kv_bytes + fit.step_bytes);
    let room = guard.room();
    let place = Place { memory: Some(promise), ..Place::default() };
    let engine = spawn(Box::new(loaded.model), Salt::of(&[]), &Device::Cpu, config, place).unwrap();
    runtime.block_on(async {
        let mut ticket = engine.generate(Generate::new((0..1000).map(|n| n % 256).collect(), 8)).await.unwrap();
        let mut end = None;
        while let Some(event) = ticket.next().await {
            end = Some(event);
        }
        assert!(matches!(end, Some(Event::Done { .. })), "{end:?}");
    });
    let used = used();
    engine.stop();
    let begin = Instant::now();
    while engine.is_alive() || guard.room() <= room {
        assert!(begin.elapsed() < Duration::from_secs(10), "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    used
}

#[test]
fn thirty_loads_and_unloads_take_what_the_first_took() {
    let dir = tempfile::tempdir().unwrap();
    // 16 MiB of weights, and 4 KiB of keys and values for each token.
    let shape =
        RandomLlama { heads: 32, kv_heads: 32, windows: vec![None; 4], context: 4096, ..RandomLlama::default() };
    random_llama(dir.path(), &shape);
    let limit = 16 * MIB + 64 * MIB;
    let guard = Guard::new(Limits::most(used() + limit, None), Box::new(System));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (first, room) = (round(dir.path(), &guard, &runtime), guard.room());
    let all: Vec<u64> = (1..ROUNDS).map(|_| round(dir.path(), &guard, &runtime)).collect();
    // Where a thread starts before the last one is quite gone, the allocator gives it an arena of its own, once, with what a
    // load takes and frees on its way: less than the weights.
    let (most, more) = (all.iter().copied().max().unwrap(), first / 10 + 16 * MIB);
    assert!(most <= first + more, "{} MiB after {} MiB: {all:?}", most / MIB, first / MIB);
    let last = used();
    assert!(last <= first + more, "{last} left after the last one, {first} taken by the first");
    assert!(guard.room() + more >= room, "{} left to promise, {room} after the first", guard.room());
}
