//! An engine under a memory guard whose meter says what the test wants.
//!
//! Faults seen to be caught: the guard asked only after the first admission; readings taken as news every step (a lone row is
//! ended that had done nothing); the promise kept by nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use candle_core::Device;
use futures_util::StreamExt;
use futures_util::future::join_all;
use omlx_api::{EngineHandle, Event, Fault, Generate, Refusal};
use omlx_blocks::Salt;
use omlx_engine::guard::{Guard, Limits, Measure, Meter};
use omlx_engine::{Config, Place, spawn};
use omlx_models::EchoModel;
use omlx_ops::Reach;

use crate::answer::{ask, block_on, finish, settled};
use crate::planted::{self, Fault as Plant, Planted, Watch, config};

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 1600 * MIB;

#[derive(Clone, Default)]
struct Dial(Arc<AtomicU64>);

impl Dial {
    fn set(&self, mib: u64) {
        self.0.store(mib * MIB, Ordering::SeqCst);
    }
}

impl Meter for Dial {
    fn measure(&self) -> Option<Measure> {
        Some(Measure { footprint_bytes: self.0.load(Ordering::SeqCst), available_bytes: None })
    }
}

const ROOM: u64 = 100;
const SOFT: u64 = 1550;
const HARD: u64 = 1700;

struct Rig {
    engine: EngineHandle,
    dial: Dial,
    guard: Arc<Guard>,
    watch: Arc<Watch>,
}

fn rig(used_mib: u64, config: Config, model: (Planted<EchoModel>, Arc<Watch>)) -> Rig {
    let (model, watch) = model;
    let dial = Dial::default();
    dial.set(used_mib);
    let guard = Guard::new(Limits { most_bytes: LIMIT, spare_bytes: 0, tier: None }, Box::new(dial.clone()));
    let place = Place { memory: Some(guard.promise(10 * MIB)), ..Place::default() };
    let engine = spawn(Box::new(model), Salt::of(&[]), &Device::Cpu, config, place).unwrap();
    Rig { engine, dial, guard, watch }
}

fn slow(slowness: Duration) -> (Planted<EchoModel>, Arc<Watch>) {
    planted::echo(Plant::Nothing, |_| false, Watch { slowness, ..Watch::default() })
}

fn at(used_mib: u64) -> Rig {
    rig(used_mib, config(), slow(Duration::from_micros(200)))
}

/// A look is old after 100 ms; the engine has then looked again, since it runs.
async fn looked_again() {
    tokio::time::sleep(Duration::from_millis(150)).await;
}

#[track_caller]
fn refused(end: &Event, used_mib: u64) {
    let Event::Failed(Fault::Refused(Refusal::Memory { used_bytes, limit_bytes, .. })) = end else { panic!("{end:?}") };
    assert_eq!((*used_bytes, *limit_bytes), (used_mib * MIB, LIMIT));
}

async fn first_token(engine: &EngineHandle, request: Generate) -> (Event, omlx_api::Ticket) {
    let mut ticket = engine.generate(request).await.unwrap();
    (ticket.next().await.unwrap(), ticket)
}

#[test]
fn near_the_limit_one_at_a_time_and_all_are_answered() {
    let Rig { engine, dial, watch, .. } = at(SOFT);
    block_on(async {
        let ask_all = || join_all((0..4).map(|n| ask(&engine, Generate::new(vec![n; 20], 8))));
        assert!(ask_all().await.iter().all(|got| got.ids.len() == 8));
        assert_eq!(watch.most_rows.load(Ordering::SeqCst), 1);
        dial.set(ROOM);
        looked_again().await;
        assert!(ask_all().await.iter().all(|got| got.ids.len() == 8));
        assert!(watch.most_rows.load(Ordering::SeqCst) > 1, "there is room again");
        settled(&engine).await;
    });
}

#[test]
fn above_the_limit_newcomers_are_refused_with_numbers_and_who_runs_goes_on() {
    let Rig { engine, dial, guard, .. } = at(ROOM);
    block_on(async {
        let (token, running) = first_token(&engine, Generate::new(vec![7; 20], 2_000)).await;
        assert!(matches!(token, Event::Token { .. }));
        dial.set(HARD);
        looked_again().await;
        refused(&ask(&engine, Generate::new(vec![8; 3], 1)).await.end, HARD);
        assert_eq!(guard.status(std::time::Instant::now()).refused, 1);
        assert_eq!(finish(running).await.ids.len(), 1_999);
        // Whoever comes first to an idle engine passes.
        assert_eq!(ask(&engine, Generate::new(vec![9; 3], 2)).await.ids.len(), 2);
        settled(&engine).await;
    });
}

#[test]
fn rows_give_way_and_come_back() {
    let Rig { engine, dial, watch, guard } = at(ROOM);
    block_on(async {
        let mut tickets = Vec::new();
        for n in 0..4 {
            tickets.push(first_token(&engine, Generate::new(vec![n; 20], 600)).await.1);
        }
        dial.set(HARD);
        let begin = std::time::Instant::now();
        while engine.snapshot().running > 1 {
            assert!(begin.elapsed().as_secs() < 5, "nobody gives way");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        dial.set(ROOM);
        let echo = EchoModel::new(&[Reach::All, Reach::Last(9)], 100, 4_096);
        for (n, got) in (0..).zip(join_all(tickets.into_iter().map(finish)).await) {
            let mut tokens = vec![n; 20];
            tokens.push(echo.answer(&tokens));
            for id in &got.ids {
                tokens.push(echo.answer(&tokens));
                assert_eq!(tokens.last(), Some(id), "parking does not show");
            }
            assert_eq!(got.ids.len(), 599);
        }
        assert_eq!(watch.most_rows.load(Ordering::SeqCst), 4);
        let parked = settled(&engine).await.parked;
        let status = guard.status(std::time::Instant::now());
        assert!(status.parked == parked && parked >= 3, "{status:?}, {parked}");
        assert_eq!(status.refused, 0);
    });
}

/// A pool too small for those who run is no lack of memory. Seen to fail: every parked row counted as the guard's.
#[test]
fn rows_that_give_way_for_want_of_blocks_are_not_the_guards() {
    let (model, watch) = slow(Duration::ZERO);
    let layout = omlx_models::Model::layout(&model).clone();
    let block: u64 = (0..layout.groups.len()).map(|g| layout.block_bytes(g, 16)).sum();
    let Rig { engine, guard, .. } = rig(ROOM, Config { kv_bytes: block * 14, ..config() }, (model, watch));
    block_on(async {
        let asked = (0..4).map(|n| ask(&engine, Generate::new(vec![n; 20], 100)));
        assert!(join_all(asked).await.iter().all(|got| got.ids.len() == 100));
        assert!(settled(&engine).await.parked > 0);
        assert_eq!(guard.status(std::time::Instant::now()).parked, 0);
    });
}

#[test]
fn who_runs_alone_and_still_grows_is_ended_and_told_why() {
    let Rig { engine, dial, .. } = at(ROOM);
    block_on(async {
        let (_, running) = first_token(&engine, Generate::new(vec![7; 20], 4_000)).await;
        dial.set(HARD);
        looked_again().await;
        dial.set(HARD + 100);
        refused(&finish(running).await.end, HARD + 100);
        settled(&engine).await;
        assert!(engine.is_alive());
    });
}

/// LIFE-5: prompts of 10, 1k and 8k tokens with limits of 16, 4k and 64k, into a cache of 12k tokens and one of 4k.
#[test]
fn life_5_only_what_is_there_decides_and_never_the_limit() {
    for (pool_tokens, fits) in [(12 << 10, 8 << 10), (4 << 10, 1 << 10)] {
        let inner = EchoModel::new(&[Reach::All], 100, 1 << 17);
        let block_bytes = omlx_models::Model::layout(&inner).block_bytes(0, 64);
        let config = Config { rows: 4, ..Config::new(block_bytes * pool_tokens / 64) };
        let watch = Arc::new(Watch::default());
        let model = Planted { inner, fault: Plant::Nothing, at: |_| false, watch: Arc::clone(&watch) };
        let Rig { engine, dial, .. } = rig(ROOM, config, (model, watch));
        block_on(async {
            for (used, busy) in [(ROOM, false), (SOFT, false), (HARD, false), (ROOM, true), (HARD, true)] {
                dial.set(ROOM);
                looked_again().await;
                let running = match busy {
                    true => Some(first_token(&engine, Generate::new(vec![99; 10], 100_000)).await),
                    false => None,
                };
                dial.set(used);
                looked_again().await;
                for prompt in [10_u32, 1 << 10, 8 << 10] {
                    for limit in [16, 4096, 65536] {
                        let request = Generate::new((0..prompt).map(|n| (n * n + prompt) % 97).collect(), limit);
                        let (event, ticket) = first_token(&engine, request).await;
                        drop(ticket);
                        let (large, short) = (u64::from(prompt) > fits, busy && used == HARD);
                        match event {
                            Event::Token { .. } => assert!(!large && !short, "{prompt} {limit}"),
                            Event::Failed(Fault::Refused(Refusal::NeverFits { tokens, .. })) => {
                                assert!(large && tokens == prompt as usize, "{prompt} {limit}");
                            }
                            end => {
                                assert!(short, "{prompt} {limit}: {end:?}");
                                refused(&end, HARD);
                            }
                        }
                        if !busy {
                            settled(&engine).await;
                        }
                    }
                }
                drop(running);
                settled(&engine).await;
            }
        });
    }
}

#[test]
fn thirty_engines_leave_nothing_in_the_ledger() {
    let first = at(ROOM);
    let guard = Arc::clone(&first.guard);
    block_on(async {
        let room = guard.room();
        first.engine.stop();
        for _ in 0..30 {
            let (model, _) = slow(Duration::from_millis(1)); // far from its end when it is stopped
            let place = Place { memory: Some(guard.promise(1_400 * MIB)), ..Place::default() };
            let engine = spawn(Box::new(model), Salt::of(&[]), &Device::Cpu, config(), place).unwrap();
            let (_, running) = first_token(&engine, Generate::new(vec![1; 20], 3_000)).await;
            assert!(guard.room() < 200 * MIB);
            engine.stop();
            // Whoever reads the ending finds the bytes given back.
            assert_eq!(finish(running).await.end, Event::Failed(Fault::Stopped));
            assert_eq!(guard.room(), room + 10 * MIB);
        }
    });
}
