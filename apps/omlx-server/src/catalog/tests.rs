//! One load for many, names, broken models beside good ones, mended ones, dead engines.

use std::path::Path;
use std::time::Duration;

use omlx_engine::guard::{Limits, Measure, Meter};
use omlx_fixtures::{RandomLlama, random_llama};
use omlx_http::Catalog as _;
use omlx_hub::discover;
use omlx_kv::tier::TiersConfig;

use super::*;
use crate::cli::KvType;
use crate::config::{Context, Memory};

fn settings() -> Settings {
    Settings {
        rows: 2,
        context: Context::Model,
        kv_memory: Memory::Bytes(64 << 20),
        kv_type: KvType::F32,
        kv_store: omlx_kv::KvStore::default(),
        block: 16,
        step_tokens: 64,
        step_time: None,
        threads: 1,
        sampling: omlx_http::Settings::default(),
    }
}

fn catalog(root: &Path) -> Catalog {
    Catalog::new(discover(&[root.to_owned()]).models, settings(), Device::Cpu, None, None)
}

fn models(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        random_llama(&dir.path().join(name), &RandomLlama::default());
    }
    dir
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_ask_at_once_get_one_engine() {
    let dir = models(&["m"]);
    let catalog = catalog(dir.path());
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let catalog = catalog.clone();
            tokio::spawn(async move { catalog.open("m").await.unwrap().engine })
        })
        .collect();
    let mut engines = Vec::new();
    for task in asking {
        engines.push(task.await.unwrap());
    }
    assert_eq!(catalog.engines().len(), 1);
    // Stopping one stops all: they are one. Seen to fail with a load for each that asks.
    engines[0].stop();
    for engine in &engines {
        ended(engine).await;
    }
}

/// Waits until an engine has gone.
async fn ended(engine: &EngineHandle) {
    let gone = async {
        while engine.is_alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the engine has stopped");
}

#[cfg(unix)]
#[test]
fn a_name_that_would_break_the_log_is_not_offered() {
    let dir = models(&[
        "good",
        "bad\nname",
        "b\u{1b}[31m",
        "gpj.\u{202e}m",
        "a\u{2066}b",
        "a\u{2069}",
        "a\u{2028}b",
        "a\u{2029}",
    ]);
    let names: Vec<String> = catalog(dir.path()).cards().into_iter().map(|card| card.id).collect();
    assert_eq!(names, ["good"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_does_not_stop_the_load() {
    let dir = models(&["m"]);
    let catalog = catalog(dir.path());
    // Polled once, then dropped.
    let _ = tokio::time::timeout(Duration::ZERO, catalog.open("m")).await;
    while catalog.engines().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(catalog.open("m").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_full_or_the_only_last_part() {
    let dir = models(&["org/m", "org/n", "other/m"]);
    let catalog = catalog(dir.path());
    assert!(catalog.open("org/m").await.is_ok());
    assert!(catalog.open("n").await.is_ok());
    assert!(
        matches!(catalog.open("m").await, Err(OpenError::Ambiguous { candidates }) if candidates == ["org/m", "other/m"])
    );
    assert!(matches!(catalog.open("org").await, Err(OpenError::Unknown)));
    // what is shown of a model goes by the same names
    let id = |name: &str| catalog.card(name).map(|card| card.id).ok();
    assert_eq!((id("n").as_deref(), id("org/m").as_deref(), id("m")), (Some("org/n"), Some("org/m"), None));
    assert!(matches!(catalog.card("m"), Err(OpenError::Ambiguous { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_model_is_told_and_served_once_mended() {
    let dir = models(&["bad", "good"]);
    let config = dir.path().join("bad/config.json");
    let whole = std::fs::read(&config).unwrap();
    std::fs::write(&config, "{\"model_type\": \"martian\"}").unwrap();
    let catalog = catalog(dir.path());
    let Err(OpenError::Unusable { reason }) = catalog.open("bad").await else { panic!("it opened") };
    assert!(reason.contains("config.json") && reason.contains("martian"), "{reason}");
    let troubles: Vec<bool> = catalog.cards().iter().map(|c| c.trouble.is_some()).collect();
    assert_eq!((troubles, catalog.servable()), (vec![true, false], 1));
    assert!(catalog.open("good").await.is_ok());

    std::fs::write(&config, whole).unwrap();
    assert!(catalog.open("bad").await.is_ok());
    assert_eq!(catalog.servable(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_engine_is_replaced() {
    let dir = models(&["m"]);
    let catalog = catalog(dir.path());
    let first = catalog.open("m").await.unwrap().engine;
    first.stop();
    ended(&first).await;
    assert!(catalog.open("m").await.unwrap().engine.is_alive());
}

#[test]
fn of_two_with_the_same_name_the_first_counts() {
    let (a, b) = (models(&["m"]), models(&["m"]));
    let roots = [a.path().to_owned(), b.path().to_owned(), a.path().to_owned()];
    let found = roots.iter().flat_map(|root| discover(std::slice::from_ref(root)).models).collect();
    let catalog = Catalog::new(found, settings(), Device::Cpu, None, None);
    assert_eq!(catalog.cards().len(), 1);
}

/// A catalog whose model `stuck` cannot be read before something is sent.
fn stuck(root: &Path, guard: Option<Arc<Guard>>) -> (Catalog, std::sync::mpsc::Sender<()>) {
    let (go, wait) = std::sync::mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let reader = move |path: &Path, device: &Device, kv| {
        if path.ends_with("stuck") {
            let _ = wait.lock().unwrap().recv();
        }
        load::read(path, device, kv)
    };
    let mut catalog = Catalog::new(discover(&[root.to_owned()]).models, settings(), Device::Cpu, guard.clone(), None);
    let mut loader = Loader::new(settings(), Device::Cpu, guard, None);
    (loader.reader, loader.patience) = (Box::new(reader), Duration::from_millis(300));
    catalog.loader = Arc::new(loader);
    (catalog, go)
}

/// Seen to fail with one lock around the whole load.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_hangs_holds_up_nobody_else() {
    let dir = models(&["good", "stuck"]);
    let (catalog, go) = stuck(dir.path(), None);
    let Err(OpenError::Slow { .. }) = catalog.open("stuck").await.map(|_| ()) else { panic!("it opened") };
    let good = tokio::time::timeout(Duration::from_secs(20), catalog.open("good")).await;
    assert!(good.expect("an answer").is_ok());
    // The same load, asked for again, is waited for and not begun anew.
    go.send(()).unwrap();
    while catalog.open("stuck").await.is_err() {}
    assert_eq!(catalog.engines().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_server_waits_for_no_load() {
    let dir = models(&["good", "other", "stuck"]);
    let (mut catalog, _go) = stuck(dir.path(), None);
    Arc::get_mut(&mut catalog.loader).unwrap().patience = Duration::from_secs(60);
    catalog.open("good").await.unwrap();
    let asking = tokio::spawn({
        let catalog = catalog.clone();
        async move { catalog.open("stuck").await.map(|_| ()) }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    catalog.close();
    let told = tokio::time::timeout(Duration::from_secs(5), asking).await.expect("an answer").unwrap();
    assert!(matches!(told, Err(OpenError::Stopping)), "{told:?}");
    assert!(matches!(catalog.open("other").await, Err(OpenError::Stopping)), "no load begins any more");
    assert!(catalog.open("good").await.is_ok(), "what is loaded may still answer");
    catalog.stop();
}

/// A process that takes 100 MiB, whatever happens.
struct Fixed;
impl Meter for Fixed {
    fn measure(&self) -> Option<Measure> {
        Some(Measure { footprint_bytes: 100 << 20, available_bytes: None })
    }
}

fn guarded(root: &Path, beside_bytes: u64) -> (Catalog, Arc<Guard>) {
    let limits = Limits { most_bytes: (100 << 20) + beside_bytes, spare_bytes: 0, tier: None };
    let guard = Guard::new(limits, Box::new(Fixed));
    let catalog =
        Catalog::new(discover(&[root.to_owned()]).models, settings(), Device::Cpu, Some(Arc::clone(&guard)), None);
    (catalog, guard)
}

/// LIFE-5: what does not fit below the guard's limit is not loaded, and what does leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn models_under_a_guard() {
    let dir = models(&["m"]);
    let weights = std::fs::metadata(dir.path().join("m/model.safetensors")).unwrap().len();
    for (beside, part) in
        [(0, "the memory guard leaves"), (weights - 1, "its weights take"), (weights + 8192, "too small")]
    {
        let (catalog, guard) = guarded(dir.path(), beside);
        // The limit is fixed and nothing is being loaded: nobody is told to come again. Seen to fail with `NoRoom` for all.
        let Err(OpenError::NeverFits { reason }) = catalog.open("m").await.map(|_| ()) else {
            panic!("{beside} is too little")
        };
        assert!(reason.contains(part) && reason.contains("--memory-guard"), "{reason}");
        assert_eq!(guard.room(), beside, "nothing stays promised");
    }
    // The cache takes what is left, and no more than was asked for.
    let (catalog, guard) = guarded(dir.path(), 24 << 20);
    for _ in 0..30 {
        let served = catalog.open("m").await.unwrap();
        assert!(guard.room() < 24 << 20);
        served.engine.stop();
        ended(&served.engine).await;
        while guard.room() < 24 << 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// What is kept of prompts is in the ledger with all that it may take, and gives way to a model by what is missing and no more.
#[tokio::test(flavor = "multi_thread")]
async fn kept_prompts_give_way_to_a_model() {
    let dir = models(&["m"]);
    let weights = std::fs::metadata(dir.path().join("m/model.safetensors")).unwrap().len();
    let open = async |limit: u64, kept: u64| {
        let tiers = Arc::new(Tiers::over(&TiersConfig::new(kept), None).unwrap());
        let guard = Guard::new(Limits { most_bytes: (100 << 20) + limit, spare_bytes: 0, tier: None }, Box::new(Fixed));
        let found = discover(&[dir.path().to_owned()]).models;
        let catalog = Catalog::new(found, settings(), Device::Cpu, Some(Arc::clone(&guard)), Some(Arc::clone(&tiers)));
        assert_eq!(guard.room(), limit - kept);
        let opened = catalog.open("m").await;
        (opened, guard.room(), tiers.stats().ram.unwrap().budget_bytes)
    };
    let kept = 20 << 20;
    let (opened, room, left) = open(kept, kept).await;
    assert!(opened.unwrap().engine.is_alive() && left < kept && left > kept / 2, "{left}");
    assert_eq!(room, 0, "no more than was missing");
    let (opened, room, left) = open(100 << 20, kept).await;
    assert!(opened.unwrap().engine.is_alive() && room > 0);
    assert_eq!(left, kept, "nothing was missing");
    // Too little for the weights, or for keys and values, whatever is given up: nothing is, in the end. The second gives way first.
    for all in [weights - 1, weights + 2048, weights + 8192] {
        let (opened, room, left) = open(all, 4096).await;
        assert!(matches!(opened.map(|_| ()), Err(OpenError::NeverFits { .. })), "{all}");
        assert_eq!((room, left), (all - 4096, 4096));
    }
}

/// A share is of what others were not promised, so the last model finds room as the first does. Seen to fail: the share of what is
/// free, which is as much as ever until the others touch what they have.
#[tokio::test(flavor = "multi_thread")]
async fn shares_leave_something_for_the_next_model() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let dir = models(&names);
    let limits = Limits { most_bytes: 400 << 20, spare_bytes: 0, tier: None };
    let guard = Guard::new(limits, Box::new(Fixed));
    let settings =
        Settings { kv_memory: Memory::Percent(25.0), context: Context::Tokens(512), rows: 4096, ..settings() };
    let found = discover(&[dir.path().to_owned()]).models;
    let catalog = Catalog::new(found, settings, Device::Cpu, Some(Arc::clone(&guard)), None);
    let mut left = guard.room();
    for name in names {
        catalog.open(name).await.map(drop).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(guard.room() > left / 2 && guard.room() < left, "{name} takes a share of {left}: {}", guard.room());
        left = guard.room();
    }
}

/// A share of what is left that is too small stays too small while the loaded models stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_share_that_is_too_small_is_no_reason_to_come_again() {
    let dir = models(&["m"]);
    let weights = std::fs::metadata(dir.path().join("m/model.safetensors")).unwrap().len();
    let limits = Limits { most_bytes: (101 << 20) + weights, spare_bytes: 0, tier: None };
    let settings = Settings { kv_memory: Memory::Percent(0.1), ..settings() };
    let guard = Guard::new(limits, Box::new(Fixed));
    let found = discover(&[dir.path().to_owned()]).models;
    let catalog = Catalog::new(found, settings, Device::Cpu, Some(guard), None);
    let Err(OpenError::NeverFits { reason }) = catalog.open("m").await.map(|_| ()) else { panic!("it fits") };
    assert!(reason.contains("--kv-memory"), "{reason}");
}

/// Who is short because of other programs may come again, and who is short because of the limit may not.
#[tokio::test(flavor = "multi_thread")]
async fn memory_that_others_hold_may_come_back() {
    struct Crowded(u64);
    impl Meter for Crowded {
        fn measure(&self) -> Option<Measure> {
            Some(Measure { footprint_bytes: 1 << 20, available_bytes: Some(self.0) })
        }
    }
    let dir = models(&["m"]);
    let weights = std::fs::metadata(dir.path().join("m/model.safetensors")).unwrap().len();
    let cases = [
        (1 << 30, 1000, 0, false),
        (1 << 20, 1000, 0, true),
        (1 << 20, 1 << 30, 0, true),
        ((1 << 20) + weights + 1000, 1000, weights / 2, false), // what is kept of prompts would give way
    ];
    for (most_bytes, available, kept, never) in cases {
        let guard = Guard::new(Limits { most_bytes, spare_bytes: 0, tier: None }, Box::new(Crowded(available)));
        let tiers = (kept > 0).then(|| Arc::new(Tiers::over(&TiersConfig::new(kept), None).unwrap()));
        let catalog =
            Catalog::new(discover(&[dir.path().to_owned()]).models, settings(), Device::Cpu, Some(guard), tiers);
        let told = catalog.open("m").await.map(|_| ());
        let matches = if never {
            matches!(told, Err(OpenError::NeverFits { .. }))
        } else {
            matches!(told, Err(OpenError::NoRoom { .. }))
        };
        assert!(matches, "at most {most_bytes}, {available} available: {told:?}");
    }
}

/// What one load was promised is not there for another, however long it takes, and comes back when it fails.
#[tokio::test(flavor = "multi_thread")]
async fn loads_side_by_side_are_not_promised_the_same_memory() {
    let dir = models(&["good", "stuck"]);
    let weights = std::fs::metadata(dir.path().join("good/model.safetensors")).unwrap().len();
    let beside = 2 * weights - 1;
    let guard = Guard::new(Limits { most_bytes: (100 << 20) + beside, spare_bytes: 0, tier: None }, Box::new(Fixed));
    let (catalog, go) = stuck(dir.path(), Some(Arc::clone(&guard)));
    let Err(OpenError::Slow { .. }) = catalog.open("stuck").await.map(|_| ()) else { panic!("it opened") };
    assert_eq!(guard.room(), beside - weights);
    let Err(OpenError::NoRoom { reason }) = catalog.open("good").await.map(|_| ()) else { panic!("it opened") };
    assert!(reason.contains("its weights take"), "{reason}");
    // What is larger than the whole guard never fits, whatever becomes of the load under way.
    guard.set_limits(Limits { most_bytes: (100 << 20) + weights - 1, spare_bytes: 0, tier: None });
    let Err(OpenError::NeverFits { .. }) = catalog.open("good").await.map(|_| ()) else { panic!("it may come again") };
    guard.set_limits(Limits { most_bytes: (100 << 20) + beside, spare_bytes: 0, tier: None });
    std::fs::remove_file(dir.path().join("stuck/config.json")).unwrap();
    go.send(()).unwrap();
    let Err(OpenError::Unusable { .. }) = catalog.open("stuck").await.map(|_| ()) else { panic!("it opened") };
    assert_eq!(guard.room(), beside, "nothing stays promised");
}
