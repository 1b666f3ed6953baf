//! Asking an engine and keeping what it said.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::Device;
use futures_util::StreamExt;
use omlx_api::{EngineHandle, Event, Generate, Logprobs, Snapshot, Ticket, Usage};
use omlx_blocks::Salt;
use omlx_engine::{Config, Place, Turnstile, spawn};
use omlx_models::{LoadOptions, Model, load};

/// All that came out of one ticket.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) ids: Vec<u32>,
    pub(crate) logprobs: Vec<Logprobs>,
    pub(crate) end: Event,
}

impl Answer {
    pub(crate) fn usage(&self) -> Usage {
        match &self.end {
            Event::Done { usage, .. } => *usage,
            other => panic!("no answer but {other:?}"),
        }
    }

    /// Everything that may not depend on company, floats by their bits.
    pub(crate) fn bits(&self) -> (Vec<u32>, Vec<u32>) {
        let flat = |l: &Logprobs| {
            let top = l.top.iter().flat_map(|&(id, p)| [id, p.to_bits()]);
            [l.chosen.to_bits()].into_iter().chain(top).collect::<Vec<u32>>()
        };
        (self.ids.clone(), self.logprobs.iter().flat_map(flat).collect())
    }
}

/// Reads a ticket to its end, and checks that nothing follows.
pub(crate) async fn finish(mut ticket: Ticket) -> Answer {
    let (mut ids, mut all) = (Vec::new(), Vec::new());
    let end = loop {
        match ticket.next().await {
            Some(Event::Token { id, logprobs }) => {
                ids.push(id);
                all.extend(logprobs);
            }
            Some(end) => break end,
            None => panic!("a ticket ended without an ending"),
        }
    };
    assert_eq!(ticket.next().await, None, "something follows the ending");
    Answer { ids, logprobs: all, end }
}

/// Asks and reads to the end.
pub(crate) async fn ask(engine: &EngineHandle, request: Generate) -> Answer {
    finish(engine.generate(request).await.unwrap()).await
}

/// Runs a future on this thread; an engine that hangs fails the test instead of stopping all tests.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let limit = Duration::from_secs(120);
        tokio::time::timeout(limit, future).await.expect("the engine hangs")
    })
}

/// Waits until the engine has nobody and every block is back.
pub(crate) async fn settled(engine: &EngineHandle) -> Snapshot {
    let begin = Instant::now();
    loop {
        let now = engine.snapshot();
        if now.running == 0 && now.waiting == 0 && now.blocks_free == now.blocks && now.blocks > 0 {
            return now;
        }
        assert!(begin.elapsed() < Duration::from_secs(5), "not back to rest: {now:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// An engine on the CPU with a turnstile of its own.
pub(crate) fn engine(model: impl Model + 'static, config: Config) -> EngineHandle {
    engine_at(model, config, &Arc::default())
}

/// An engine on the CPU behind the given turnstile.
pub(crate) fn engine_at(model: impl Model + 'static, config: Config, turnstile: &Arc<Turnstile>) -> EngineHandle {
    let salt = Salt::of(&[("test", b"engine")]);
    spawn(Box::new(model), salt, &Device::Cpu, config, Place { turnstile: Arc::clone(turnstile), ..Place::default() })
        .unwrap()
}

/// A tiny model of the fixtures, its cache in f32.
pub(crate) fn tiny(name: &str) -> impl Model + use<> {
    let path = omlx_fixtures::tiny(name);
    let options = LoadOptions { kv: candle_core::DType::F32 };
    load(Path::new(&path), &Device::Cpu, &options).unwrap().model
}

/// Cheap numbers for tests, the same ones on every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Below `n`.
    pub(crate) fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.roll(list.len())]
    }

    pub(crate) fn tokens(&mut self, n: usize, vocab: usize) -> Vec<u32> {
        (0..n).map(|_| self.roll(vocab) as u32).collect()
    }
}
