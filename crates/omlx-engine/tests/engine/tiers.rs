//! The same answer from every place: computed, found in the pool, brought back from memory or from disk, before and after a restart.
//!
//! Compared are log-probabilities, bit for bit, with an engine that has no slower places and nothing in its cache.
//!
//! Seen to fail: a place written before its old block was copied out, after a plan and after an adoption; a window's blocks not asked
//! for; blocks adopted one place further, and imported one place further; what was disowned not forgotten, by the writer, by the stores, on the disk
//! itself; a deadline that ends no fetch; those who wait for another one's fetch forgotten; names without the salt.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use candle_core::Device;
use omlx_api::{EngineHandle, Generate};
use omlx_blocks::Salt;
use omlx_engine::{Config, Place, spawn};
use omlx_kv::tier::faults::{Faults, FaultyMedium, FaultyStore};
use omlx_kv::tier::{BlockStore, DiskConfig, DiskStore, Tiers, TiersConfig, TiersStats};
use omlx_models::Model;

use crate::answer::{Answer, Dice, ask, block_on, engine, finish, settled, tiny};
use crate::planted::{Fault, Planted};

pub(crate) const BLOCK: usize = 4;
/// With and without windows of 8 tokens.
pub(crate) const MODELS: [&str; 3] = ["llama", "gemma3_sw8", "mistral_sw8"];
const RAM: u64 = 64 << 20;

/// A pool for one long sequence and a little more.
pub(crate) fn config(model: &impl Model) -> Config {
    let layout = model.layout();
    let sizes = |blocks| {
        let groups = layout.groups.iter();
        groups.map(|group| omlx_blocks::GroupSize { reach: group.reach, blocks }).collect::<Vec<_>>()
    };
    let config = Config::new(layout.bytes(&sizes(64), BLOCK));
    Config { block: BLOCK, step_tokens: 24, chunk_tokens: 24, rows: 4, context: Some(200), step_time: None, ..config }
}

pub(crate) fn with_tiers(model: impl Model + 'static, tiers: &Arc<Tiers>, salt: &str) -> EngineHandle {
    let config = config(&model);
    let place = Place { tiers: Some(Arc::clone(tiers)), ..Place::default() };
    spawn(Box::new(model), Salt::of(&[("test", salt.as_bytes())]), &Device::Cpu, config, place).unwrap()
}

pub(crate) fn on_disk(folder: &Path, ram_bytes: u64) -> Arc<Tiers> {
    let disk = Some(DiskConfig::new(folder, 64 << 20));
    Arc::new(Tiers::open(&TiersConfig { disk, eager: true, ..TiersConfig::new(ram_bytes) }).unwrap().0)
}

pub(crate) fn request(prompt: &[u32], limit: usize) -> Generate {
    Generate { logprobs: Some(5), ..Generate::new(prompt.to_vec(), limit) }
}

/// The answer of an engine with nothing in its cache.
pub(crate) fn cold(name: &str, prompt: &[u32], limit: usize) -> Answer {
    let model = tiny(name);
    let config = config(&model);
    block_on(ask(&engine(model, config), request(prompt, limit)))
}

/// Other prompts, until the pool has nothing else.
pub(crate) async fn crowd_out(engine: &EngineHandle) {
    // Long ones for pools that see everything; many, since a window keeps only the end of each.
    for n in 0..36 {
        let prompt = Dice(7_000 + n).tokens(if n < 4 { 150 } else { 13 }, 256);
        ask(engine, Generate::new(prompt, 2)).await;
    }
}

/// Ends an engine and waits until it has said its last words.
pub(crate) fn end(engine: &EngineHandle) {
    engine.stop();
    let begin = Instant::now();
    while engine.is_alive() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The tiers are let go a moment after the door has closed.
    std::thread::sleep(Duration::from_millis(20));
}

/// Whole blocks of a prompt but its last token: what can be found of it.
pub(crate) fn findable(prompt: &[u32]) -> usize {
    (prompt.len() - 1) / BLOCK * BLOCK
}

fn every_place(name: &str) {
    // below, at and above the window, and several times it
    for len in [5, 8, 9, 12, 13, 40, 101] {
        let folder = tempfile::tempdir().unwrap();
        let prompt = Dice(len as u64).tokens(len, 256);
        let expected = cold(name, &prompt, 9);
        let check = |got: &Answer, cached: usize, what: &str| {
            assert_eq!(got.bits(), expected.bits(), "{name}, {len} tokens, {what}");
            assert_eq!(got.usage().cached, cached, "{name}, {len} tokens, {what}");
        };
        let tiers = on_disk(folder.path(), RAM);
        let engine = with_tiers(tiny(name), &tiers, "one");
        block_on(async {
            check(&ask(&engine, request(&prompt, 9)).await, 0, "fresh");
            check(&ask(&engine, request(&prompt, 9)).await, findable(&prompt), "from the pool");
            crowd_out(&engine).await;
            let before = tiers.stats().restored;
            check(&ask(&engine, request(&prompt, 9)).await, findable(&prompt), "from memory");
            assert!(tiers.stats().restored > before, "{name}, {len} tokens: nothing was brought back");
        });
        end(&engine);
        // Another engine of the same model, then one of other weights.
        let engine = with_tiers(tiny(name), &tiers, "one");
        check(&block_on(ask(&engine, request(&prompt, 9))), findable(&prompt), "from memory, another engine");
        end(&engine);
        let engine = with_tiers(tiny(name), &tiers, "other");
        check(&block_on(ask(&engine, request(&prompt, 9))), 0, "under another salt");
        end(&engine);
        assert!(tiers.flush(Duration::from_secs(10)));
        let stats = tiers.stats();
        assert_eq!((stats.unwritten, stats.disk.unwrap().bad, stats.ram.unwrap().bad), (0, 0, 0));
        drop(Arc::into_inner(tiers).expect("nobody else has the tiers"));
        let tiers = on_disk(folder.path(), 0);
        let engine = with_tiers(tiny(name), &tiers, "one");
        check(&block_on(ask(&engine, request(&prompt, 9))), findable(&prompt), "from disk, after a restart");
        assert!(tiers.stats().disk.unwrap().hits > 0);
        end(&engine);
    }
}

#[test]
fn the_same_from_every_place() {
    MODELS.iter().for_each(|name| every_place(name));
}

/// A conversation: every turn begins with all of the turn before. What was answered is found too.
fn turns(name: &str, restart: bool) {
    let folder = tempfile::tempdir().unwrap();
    let mut prompt = Dice(3).tokens(21, 256);
    let mut tiers = on_disk(folder.path(), RAM);
    let mut engine = with_tiers(tiny(name), &tiers, "one");
    let mut known = 0;
    for turn in 0..5 {
        let expected = cold(name, &prompt, 10);
        let got = block_on(ask(&engine, request(&prompt, 10)));
        assert_eq!(got.bits(), expected.bits(), "{name}, turn {turn}");
        assert_eq!(got.usage().cached, known, "{name}, turn {turn}: to the last token");
        // The last token was drawn and never computed.
        known = prompt.len() + got.ids.len() - 1;
        prompt.extend(got.ids);
        prompt.extend(Dice(50 + turn).tokens(11, 256));
        if restart {
            end(&engine);
            assert!(tiers.flush(Duration::from_secs(10)));
            drop(tiers);
            tiers = on_disk(folder.path(), 0);
            engine = with_tiers(tiny(name), &tiers, "one");
        } else {
            block_on(crowd_out(&engine));
        }
    }
    end(&engine);
}

/// Turn after turn nothing is computed twice: not even the block that was not full (PFX-1).
#[test]
fn a_conversation_computes_only_what_is_new() {
    for name in MODELS {
        turns(name, false);
        turns(name, true);
    }
}

/// Prompts that part from each other, shorter ones and repeats (PFX-1), many at once.
#[test]
fn crowds_with_common_beginnings() {
    for name in MODELS {
        let folder = tempfile::tempdir().unwrap();
        let tiers = on_disk(folder.path(), 1 << 20);
        let engine = with_tiers(tiny(name), &tiers, "one");
        let base = Dice(11).tokens(90, 256);
        let mut dice = Dice(12);
        for round in 0..6 {
            let mut prompts = Vec::new();
            for _ in 0..4 {
                let mut prompt = base[..1 + dice.roll(base.len())].to_vec();
                let own = dice.roll(30);
                prompt.extend(dice.tokens(own, 256));
                prompts.push(prompt);
            }
            prompts.push(prompts[0].clone());
            let expected: Vec<Answer> = prompts.iter().map(|prompt| cold(name, prompt, 6)).collect();
            block_on(async {
                let mut tickets = Vec::new();
                for prompt in &prompts {
                    tickets.push(engine.generate(request(prompt, 6)).await.unwrap());
                }
                for (expected, ticket) in expected.iter().zip(tickets) {
                    let got = finish(ticket).await;
                    let len = got.usage().prompt;
                    assert_eq!(got.bits(), expected.bits(), "{name}, round {round}, {len} tokens");
                }
                crowd_out(&engine).await;
            });
        }
        assert!(tiers.stats().restored > 100, "{:?}", tiers.stats());
        end(&engine);
    }
}

/// A disk of which `faults` decides, and what is needed to fill it.
struct Rig {
    faults: Arc<Faults>,
    tiers: Arc<Tiers>,
    engine: EngineHandle,
    prompt: Vec<u32>,
    expected: Answer,
    _folder: tempfile::TempDir,
}

/// An engine whose prompt is on disk and nowhere else.
fn rig(name: &str) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let medium = FaultyMedium::new(DiskStore::plain(folder.path()), Arc::clone(&faults));
    let (store, _) = DiskStore::over(&DiskConfig::new(folder.path(), 64 << 20), Arc::new(medium)).unwrap();
    let store: Arc<dyn BlockStore> = Arc::new(FaultyStore::new(Arc::new(store), Arc::clone(&faults)));
    let tiers = Arc::new(Tiers::over(&TiersConfig::new(0), Some(store)).unwrap());
    let engine = with_tiers(tiny(name), &tiers, "one");
    let prompt = Dice(5).tokens(61, 256);
    let expected = cold(name, &prompt, 6);
    block_on(async {
        ask(&engine, request(&prompt, 6)).await;
        crowd_out(&engine).await;
    });
    assert!(tiers.flush(Duration::from_secs(10)));
    Rig { faults, tiers, engine, prompt, expected, _folder: folder }
}

impl Rig {
    fn check(&self, what: &str) -> usize {
        let got = block_on(ask(&self.engine, request(&self.prompt, 6)));
        assert_eq!(got.bits(), self.expected.bits(), "{what}");
        got.usage().cached
    }

    fn stats(&self) -> TiersStats {
        self.tiers.stats()
    }
}

#[test]
fn a_disk_that_cannot_be_read_costs_only_time() {
    for name in MODELS {
        let rig = rig(name);
        rig.faults.read.store(5, Ordering::SeqCst);
        assert_eq!(rig.check("a broken disk"), 0);
        rig.faults.read.store(0, Ordering::SeqCst);
        block_on(crowd_out(&rig.engine));
        assert_eq!(rig.check("a mended disk"), 60, "{name}: {:?}", rig.stats());
        end(&rig.engine);
    }
}

/// A disk that hangs: the request goes on without it, others meanwhile, and the engine can be stopped.
#[test]
fn a_disk_that_hangs_hangs_nobody() {
    let rig = rig("gemma3_sw8");
    rig.faults.slow_micros.store(4_000_000, Ordering::SeqCst);
    let other = Dice(77).tokens(30, 256);
    let expected = cold("gemma3_sw8", &other, 6);
    block_on(async {
        let begin = Instant::now();
        let waiting = rig.engine.generate(request(&rig.prompt, 6)).await.unwrap();
        let got = ask(&rig.engine, request(&other, 6)).await;
        assert_eq!(got.bits(), expected.bits());
        let got = finish(waiting).await;
        assert_eq!(got.bits(), rig.expected.bits());
        assert!(begin.elapsed() < Duration::from_secs(4), "it waited for the disk");
    });
    end(&rig.engine);
}

/// A full disk: nothing is kept, everybody is answered.
#[test]
fn a_full_disk_switches_writing_off() {
    let rig = rig("llama");
    rig.faults.write.store(28, Ordering::SeqCst);
    let prompt = Dice(99).tokens(80, 256);
    let expected = cold("llama", &prompt, 6);
    block_on(async {
        for _ in 0..2 {
            let got = ask(&rig.engine, request(&prompt, 6)).await;
            assert_eq!((got.bits(), got.usage().cached), (expected.bits(), 0));
            crowd_out(&rig.engine).await;
        }
    });
    assert_eq!(rig.check("what is there is still read"), 60);
    let stats = rig.stats();
    assert!(stats.writer.unwrap().failed > 0, "{stats:?}");
    end(&rig.engine);
}

/// Clients that go away while their prefixes are being fetched, those who wait for the same ones, and those who take over.
#[test]
fn cancelled_fetches_leave_nothing() {
    let rig = rig("mistral_sw8");
    rig.faults.slow_micros.store(300_000, Ordering::SeqCst);
    block_on(async {
        let first = rig.engine.generate(request(&rig.prompt, 6)).await.unwrap();
        let second = rig.engine.generate(request(&rig.prompt, 6)).await.unwrap();
        let third = rig.engine.generate(request(&rig.prompt, 6)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        drop(first);
        drop(third);
        assert_eq!(finish(second).await.bits(), rig.expected.bits());
        rig.faults.slow_micros.store(0, Ordering::SeqCst);
        settled(&rig.engine).await;
    });
    assert_eq!(rig.check("afterwards"), 60);
    end(&rig.engine);
}

/// Blocks whose numbers are not numbers are in no place.
#[test]
fn nan_is_kept_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let tiers = on_disk(folder.path(), RAM);
    let model = Planted { inner: tiny("llama"), fault: Fault::NanAfter(7), at: |_| true, watch: Arc::default() };
    let engine = with_tiers(model, &tiers, "one");
    // The first chunks are written before the last token shows that they cannot be trusted.
    let mut prompt: Vec<u32> = (0..60).map(|n| 100 + n).collect();
    prompt.push(7);
    block_on(async {
        let got = ask(&engine, Generate::new(prompt.clone(), 4)).await;
        assert!(matches!(got.end, omlx_api::Event::Failed(omlx_api::Fault::Unsound { .. })), "{got:?}");
        settled(&engine).await;
    });
    assert!(tiers.flush(Duration::from_secs(10)));
    end(&engine);
    let stats = tiers.stats();
    assert_eq!((stats.ram.unwrap().blocks, stats.disk.unwrap().blocks), (0, 0), "{stats:?}");
    drop(Arc::into_inner(tiers).expect("nobody else has the tiers"));
    // Nor after a restart, though files are only ever appended to.
    let tiers = on_disk(folder.path(), RAM);
    let engine = with_tiers(tiny("llama"), &tiers, "one");
    prompt[60] = 8;
    assert_eq!(block_on(ask(&engine, Generate::new(prompt, 4))).usage().cached, 0);
    end(&engine);
}
