//! The system's own numbers: cached blocks go back to it before anybody is refused. Alone in its binary, so that no other test's
//! memory is counted.
//!
//! Faults seen to be caught: the pressure told before anything was given back (the newcomer is refused); blocks forgotten but
//! their memory kept; blocks that somebody holds given back (the running answer changes).
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use candle_core::{DType, Device, Result, Tensor};
use futures_util::StreamExt;
use omlx_api::{EngineHandle, Event, Fault, Generate, Refusal};
use omlx_blocks::Salt;
use omlx_engine::guard::{Guard, Limits, Meter, System};
use omlx_engine::{Config, Place, spawn};
use omlx_kv::{Batch, Codec, KvCache, KvGroup, KvLayout};
use omlx_models::Model;
use omlx_ops::Reach;

const MIB: u64 = 1 << 20;
const HEADS: usize = 8;
const DIM: usize = 128;

/// A model that only remembers: 8 KiB a token. It answers with a checksum over the first numbers of all keys that it sees.
struct Fat(KvLayout);

impl Fat {
    fn new() -> Self {
        let codec = Codec::Plain(DType::F32);
        Fat(KvLayout { groups: vec![KvGroup { layers: vec![0], heads: HEADS, dim: DIM, reach: Reach::All, codec }] })
    }

    /// What it says after these tokens.
    fn answer(tokens: &[u32]) -> u32 {
        Self::sum(tokens.iter().map(|token| token + 1))
    }

    fn sum(keys: impl Iterator<Item = u32>) -> u32 {
        keys.zip(1..).map(|(key, place)| key * place % 97).sum::<u32>() % 97
    }
}

impl Model for Fat {
    fn layout(&self) -> &KvLayout {
        &self.0
    }

    fn forward(&self, batch: &Batch, kv: &KvCache) -> Result<Tensor> {
        std::thread::sleep(Duration::from_millis(1));
        let layer = kv.layer(0, batch);
        let rows: Vec<f32> = batch.tokens.iter().flat_map(|t| [(*t + 1) as f32; HEADS * DIM]).collect();
        let x = Tensor::from_vec(rows, (batch.tokens.len(), HEADS, DIM), &Device::Cpu)?;
        layer.write(&x, &x)?;
        let view = &batch.views[0];
        let block = layer.block() as u32;
        let mut logits = Vec::new();
        for row in 0..view.lens.len() {
            if !batch.wanted.contains(&(batch.starts[row + 1] - 1)) {
                continue;
            }
            let table = &view.tables[row * view.width..];
            let slot = |pos: u32| table[(pos / block) as usize] * block + pos % block;
            let (keys, _) = layer.read(&(0..view.lens[row]).map(slot).collect::<Vec<_>>())?;
            let keys = keys.narrow(1, 0, 1)?.narrow(2, 0, 1)?.flatten_all()?.to_vec1::<f32>()?;
            let id = Fat::sum(keys.into_iter().map(|key| key as u32));
            logits.extend((0..97).map(|n| f32::from(u8::from(n == id))));
        }
        let wanted = batch.wanted.len();
        Tensor::from_vec(logits, (wanted, 97), &Device::Cpu)
    }

    fn vocab(&self) -> usize {
        97
    }

    fn context(&self) -> usize {
        1 << 16
    }
}

fn used() -> u64 {
    System.measure().unwrap().footprint_bytes
}

fn prompt(n: u32, len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * i + n * 7 + i / 3) % 97).collect()
}

/// The ids and the end, and how much of the prompt was cached.
async fn ask(engine: &EngineHandle, tokens: Vec<u32>, limit: usize) -> (Vec<u32>, Event) {
    let mut ticket = engine.generate(Generate::new(tokens, limit)).await.unwrap();
    let mut ids = Vec::new();
    loop {
        match ticket.next().await.unwrap() {
            Event::Token { id, .. } => ids.push(id),
            end => return (ids, end),
        }
    }
}

#[track_caller]
fn cached((ids, end): &(Vec<u32>, Event), prompt: &[u32]) -> usize {
    assert_eq!(ids[0], Fat::answer(prompt), "the right answer");
    let Event::Done { usage, .. } = end else { panic!("{end:?}") };
    usage.cached
}

/// Whether a short request is answered; else it has to be refused for memory.
async fn served(engine: &EngineHandle) -> bool {
    let (ids, end) = ask(engine, prompt(11, 10), 1).await;
    match end {
        Event::Done { .. } => {
            assert_eq!(ids, [Fat::answer(&prompt(11, 10))]);
            true
        }
        Event::Failed(Fault::Refused(Refusal::Memory { .. })) => false,
        end => panic!("{end:?}"),
    }
}

/// A running answer beside 128 MiB of cached prompts, a limit below what is in use, and a newcomer.
#[test]
fn cached_blocks_go_before_anybody_is_refused() {
    let guard = Guard::new(Limits::most(1 << 40, None), Box::new(System));
    let place = Place { memory: Some(guard.promise(256 * MIB)), ..Place::default() };
    let config = Config { rows: 4, step_time: None, ..Config::new(256 * MIB) };
    let engine = spawn(Box::new(Fat::new()), Salt::of(&[]), &Device::Cpu, config, place).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let empty = used();
        for n in 0..8 {
            ask(&engine, prompt(n, 2048), 1).await;
        }
        let full = used();
        assert!(full > empty + 120 * MIB, "{full} after {empty}");
        assert_eq!(cached(&ask(&engine, prompt(3, 2048), 1).await, &prompt(3, 2048)), 2048 - 64);

        let start = prompt(20, 300);
        let mut running = engine.generate(Generate::new(start.clone(), 60_000)).await.unwrap();
        let mut tokens = start;
        for _ in 0..20 {
            tokens.push(next(&mut running, &tokens).await);
        }
        guard.set_limits(Limits::most(used() - 32 * MIB, None));
        assert_eq!(cached(&ask(&engine, prompt(9, 100), 1).await, &prompt(9, 100)), 0);
        let status = guard.status(Instant::now());
        assert_eq!(status.refused, 0, "{status:?}");
        assert!(status.given_back_bytes > 120 * MIB, "{status:?}");
        assert!(used() < full - 100 * MIB, "{} after {full}", used());
        for _ in 0..100 {
            tokens.push(next(&mut running, &tokens).await);
        }
        assert_eq!(cached(&ask(&engine, prompt(3, 2048), 1).await, &prompt(3, 2048)), 0, "it was forgotten");

        // Nothing is left to give: now newcomers are refused, until there is room again.
        // (Who comes while the limits change may still be judged by the old ones.)
        guard.set_limits(Limits::most(MIB, None));
        while served(&engine).await {}
        assert_eq!(guard.status(Instant::now()).refused, 1);
        guard.set_limits(Limits::most(1 << 40, None));
        while !served(&engine).await {}
        drop(running);
    });
    others_wake(&runtime);
}

/// An engine asleep on 64 MiB of cached blocks, and another one that is asked something while memory is short.
/// Seen to fail: nobody is woken.
fn others_wake(runtime: &tokio::runtime::Runtime) {
    let guard = Guard::new(Limits::most(1 << 40, None), Box::new(System));
    let start = || {
        let place = Place { memory: Some(guard.promise(128 * MIB)), ..Place::default() };
        let config = Config { rows: 4, step_time: None, ..Config::new(128 * MIB) };
        spawn(Box::new(Fat::new()), Salt::of(&[]), &Device::Cpu, config, place).unwrap()
    };
    let (asleep, awake) = (start(), start());
    runtime.block_on(async {
        for n in 0..4 {
            ask(&asleep, prompt(n, 2048), 1).await;
        }
        assert_eq!(cached(&ask(&asleep, prompt(2, 2048), 1).await, &prompt(2, 2048)), 2048 - 64);
        guard.set_limits(Limits::most(used() - 16 * MIB, None));
        let begin = Instant::now();
        while guard.status(Instant::now()).given_back_bytes < 60 * MIB {
            assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", guard.status(Instant::now()));
            ask(&awake, prompt(7, 10), 1).await;
        }
        assert_eq!(cached(&ask(&asleep, prompt(2, 2048), 1).await, &prompt(2, 2048)), 0, "what it kept is gone");
    });
}

async fn next(ticket: &mut omlx_api::Ticket, tokens: &[u32]) -> u32 {
    let Some(Event::Token { id, .. }) = ticket.next().await else { panic!("it has ended") };
    assert_eq!(id, Fat::answer(tokens), "after {} tokens", tokens.len());
    id
}
