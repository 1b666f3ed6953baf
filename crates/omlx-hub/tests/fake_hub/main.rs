//! Downloads against a hub on loopback that cuts, lies, redirects and refuses.
//!
//! Seen to catch: the token sent on every hop; `append` without truncation where `Range` is ignored; no verification; links made before all blobs are here.

#![expect(clippy::unwrap_used, reason = "what a test's helpers cannot do is a failed test")]

mod hub;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hub::{Act, FakeHub};
use omlx_hub::{Config, Error, Hub, Progress, Repo, discover, download, remove_partials, resolve};

const WEIGHTS: &str = "model.safetensors";

fn weights(values: usize) -> Vec<u8> {
    let header = format!("{{\"w\":{{\"dtype\":\"F32\",\"shape\":[{values}],\"data_offsets\":[0,{}]}}}}", 4 * values);
    let data: Vec<u8> = (0..4 * values).map(|n| (n * 31 % 251) as u8).collect();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// A hub with a model of three files, and an empty cache.
struct Case {
    hub: FakeHub,
    cache: tempfile::TempDir,
    reach: Hub,
}

impl Case {
    fn new() -> Self {
        Self::with(&[(WEIGHTS, weights(50_000)), ("config.json", b"{}".to_vec()), ("tokenizer.json", vec![b' '; 5000])])
    }

    fn with(files: &[(&str, Vec<u8>)]) -> Self {
        let hub = FakeHub::serving(files);
        let reach =
            Hub { token: Some("t-1".into()), retries: 0, read_timeout: Duration::from_secs(5), ..Hub::at(&hub.url) };
        Self { hub, cache: tempfile::tempdir().unwrap(), reach }
    }

    fn get(&self) -> Result<PathBuf, Error> {
        self.get_repo("o/n", &mut |_| ControlFlow::Continue(()))
    }

    fn get_repo(&self, repo: &str, progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>) -> Result<PathBuf, Error> {
        download(&repo.parse()?, self.cache.path(), &self.reach, progress)
    }

    /// Models that the cache shows, servable or not.
    fn listed(&self) -> usize {
        discover(&[self.cache.path().to_owned()]).models.len()
    }

    /// Names of the files in `blobs` that are not all there.
    fn partials(&self) -> Vec<PathBuf> {
        let blobs = fs::read_dir(self.cache.path().join("models--o--n/blobs"));
        blobs
            .map(|d| {
                d.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "incomplete")).collect()
            })
            .unwrap_or_default()
    }

    #[track_caller]
    fn whole(&self) {
        let path = self.get().unwrap();
        assert_eq!(fs::read(path.join(WEIGHTS)).unwrap(), weights(50_000));
        assert_eq!(self.listed(), 1);
        assert!(self.partials().is_empty());
    }

    fn ranges(&self) -> Vec<Option<String>> {
        self.hub.asked(WEIGHTS).into_iter().map(|a| a.range).collect()
    }
}

fn size() -> usize {
    weights(50_000).len()
}

#[test]
fn three_files_become_a_model() {
    let case = Case::new();
    let mut seen: Vec<Progress> = vec![];
    let path = case
        .get_repo("o/n", &mut |p| {
            seen.push(p.clone());
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(path, case.cache.path().join("models--o--n/snapshots/abc"));
    let last = seen.last().unwrap();
    assert_eq!(
        (last.file.as_str(), last.done_bytes, last.total_bytes),
        (WEIGHTS, (size() + 5002) as u64, (size() + 5002) as u64)
    );
    assert!(seen.windows(2).all(|w| w[0].done_bytes <= w[1].done_bytes));
    assert_eq!(fs::read_to_string(case.cache.path().join("models--o--n/refs/main")).unwrap(), "abc");
    case.whole();
    assert_eq!(case.hub.asked(WEIGHTS).len(), 1, "what is here is not fetched again");
}

#[test]
fn cut_in_half_then_resumed() {
    let case = Case::new();
    case.hub.will(WEIGHTS, [Act::Cut(size() / 2)]);
    assert!(matches!(case.get(), Err(Error::Network { .. })));
    assert_eq!((case.listed(), case.partials().len()), (0, 1));
    case.whole();
    assert_eq!(case.ranges(), [None, Some(format!("bytes={}-", size() / 2))]);
}

#[test]
fn broken_transfers_are_taken_up_again() {
    let mut case = Case::new();
    case.reach.retries = 2;
    case.hub.will(WEIGHTS, [Act::Cut(1000), Act::Status(503), Act::Cut(2000), Act::Status(429)]);
    case.whole();
    let from = |n: usize| Some(format!("bytes={n}-"));
    assert_eq!(case.ranges(), [None, from(1000), from(1000), from(3000), from(3000)]);
}

#[test]
fn retries_end() {
    let mut case = Case::new();
    case.reach.retries = 1;
    case.hub.will(WEIGHTS, [Act::Status(500), Act::Status(502)]);
    assert!(matches!(case.get(), Err(Error::Status { status: 502, .. })));
}

#[test]
fn a_server_that_ignores_range_starts_over() {
    let case = Case::new();
    case.hub.will(WEIGHTS, [Act::Cut(70_000), Act::IgnoreRange]);
    assert!(case.get().is_err());
    case.whole();
    // had the bytes been added to those that were here, the length would be wrong and a third request needed
    assert_eq!(case.ranges(), [None, Some("bytes=70000-".to_owned())]);
}

#[test]
fn range_not_satisfiable_starts_over() {
    let case = Case::new();
    case.hub.will(WEIGHTS, [Act::Cut(70_000), Act::Status(416)]);
    assert!(case.get().is_err());
    case.whole();
    assert_eq!(case.ranges().last().unwrap(), &None);
}

#[test]
fn a_partial_longer_than_the_file_starts_over() {
    let case = Case::new();
    case.hub.will(WEIGHTS, [Act::Cut(10)]);
    assert!(case.get().is_err());
    fs::write(&case.partials()[0], vec![1; size() + 1]).unwrap();
    case.whole();
}

#[test]
fn a_wrong_sum_is_fetched_once_more() {
    let case = Case::new();
    case.hub.will(WEIGHTS, [Act::Wrong]);
    case.whole();
    assert_eq!(case.ranges(), [None, None]);
}

#[test]
fn wrong_twice_is_an_error_and_leaves_nothing() {
    for act in [|| Act::Wrong, || Act::TooLong] {
        let case = Case::new();
        case.hub.will(WEIGHTS, [act(), act()]);
        let error = case.get().unwrap_err();
        assert!(matches!(error, Error::Checksum { .. } | Error::Size { .. }), "{error}");
        assert!(error.to_string().contains(WEIGHTS));
        assert_eq!((case.listed(), case.partials().len()), (0, 0));
        case.whole();
    }
}

#[test]
fn a_tampered_partial_is_found_out() {
    let case = Case::new();
    case.hub.will(WEIGHTS, [Act::Cut(50_000)]);
    assert!(case.get().is_err());
    fs::write(&case.partials()[0], vec![9; 50_000]).unwrap();
    case.whole();
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    for bad in ["../x.json", "a/../../x.json", "/etc/x.json", "a\\..\\x.json", "c:x.json", "..", "a//b.json", ""] {
        let case = Case::with(&[(WEIGHTS, weights(100)), (bad, vec![0; 3])]);
        let error = case.get().unwrap_err();
        assert!(matches!(&error, Error::UnsafeName { file, .. } if file == bad), "{bad}: {error}");
        assert_eq!(fs::read_dir(case.cache.path()).unwrap().count(), 0);
    }
}

#[test]
fn the_token_stays_with_the_hub() {
    let case = Case::new();
    let elsewhere = FakeHub::serving(&[(WEIGHTS, weights(50_000))]);
    case.hub.will(WEIGHTS, [Act::Redirect(format!("{}/cdn/{WEIGHTS}", elsewhere.url))]);
    case.hub.will("config.json", [Act::Redirect("/moved/config.json".to_owned())]);
    case.whole();
    let tokens = |asked: Vec<hub::Asked>| asked.into_iter().map(|a| a.token).collect::<Vec<_>>();
    assert_eq!(tokens(elsewhere.asked(WEIGHTS)), [None]);
    assert_eq!(tokens(case.hub.asked(WEIGHTS)), [Some("Bearer t-1".to_owned())]);
    assert_eq!(tokens(case.hub.asked("/moved/config.json")), [Some("Bearer t-1".to_owned())]);
    assert!(!format!("{:?}", case.reach).contains("t-1"));
}

#[test]
fn redirects_have_an_end() {
    let case = Case::new();
    let round = || Act::Redirect(format!("{}/round/config.json", case.hub.url));
    case.hub.will("config.json", std::iter::repeat_with(round).take(20));
    assert!(matches!(case.get(), Err(Error::Redirect { why: "too many redirects", .. })));
    for to in ["ftp://x/y", "file:///etc/passwd", ""] {
        let case = Case::new();
        case.hub.will("config.json", [Act::Redirect(to.to_owned())]);
        assert!(matches!(case.get(), Err(Error::Redirect { .. })), "{to}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let case = Case::new();
    case.hub.will("config.json", [Act::Status(401)]);
    assert!(case.get().unwrap_err().to_string().contains("give a token"));
    let error = case.get_repo("o/absent", &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, Error::NotOnHub { .. }));
    let nobody = Hub { retries: 0, ..Hub::at("http://127.0.0.1:9") };
    let error =
        download(&"o/n".parse().unwrap(), case.cache.path(), &nobody, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, Error::Network { .. }), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_says_so_and_can_be_taken_up_again() {
    let case = Case::new();
    case.hub.will(WEIGHTS, [Act::Cut(0)]);
    assert!(case.get().is_err());
    // a device on which every write fails for want of room
    let partial = case.partials().remove(0);
    fs::remove_file(&partial).unwrap();
    std::os::unix::fs::symlink("/dev/full", &partial).unwrap();
    let error = case.get().unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!(case.listed(), 0);
    fs::remove_file(&partial).unwrap();
    case.whole();
}

#[test]
fn one_writer_per_file() {
    let case = Case::new();
    let (here, is_here) = mpsc::channel();
    let (let_go, go) = mpsc::channel();
    case.hub.will(WEIGHTS, [Act::Hold(here, go)]);
    thread::scope(|s| {
        let first = s.spawn(|| case.get());
        is_here.recv().unwrap();
        let error = case.get().unwrap_err();
        assert!(matches!(&error, Error::Busy { file } if file == WEIGHTS), "{error}");
        assert_eq!(remove_partials(&"o/n".parse().unwrap(), case.cache.path()).unwrap(), 0, "not while it is written");
        let_go.send(()).unwrap();
        first.join().unwrap().unwrap();
    });
    case.whole();
}

#[test]
fn cancelled_and_cleared() {
    let case = Case::new();
    let mut stop = |p: &Progress| {
        if p.file == WEIGHTS && p.file_done_bytes > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert!(matches!(case.get_repo("o/n", &mut stop), Err(Error::Cancelled { .. })));
    assert_eq!((case.listed(), case.partials().len()), (0, 1));
    let repo: Repo = "o/n".parse().unwrap();
    assert_eq!(remove_partials(&repo, case.cache.path()).unwrap(), 1);
    case.whole();
    assert_eq!(remove_partials(&repo, case.cache.path()).unwrap(), 0);
    assert_eq!(case.hub.asked("config.json").len(), 1, "what had arrived whole is kept");
}

#[test]
fn a_repository_of_gguf_files_is_asked_which() {
    let gguf = |n: u8| [&b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..], &[n; 200]].concat();
    let case = Case::with(&[("a.gguf", gguf(1)), ("q/b.gguf", gguf(2)), ("README.md", vec![0])]);
    assert!(case.get().unwrap_err().to_string().contains("o/n/a.gguf, o/n/q/b.gguf"));
    let quiet = &mut |_: &Progress| ControlFlow::Continue(());
    let path = case.get_repo("o/n/q/b.gguf", quiet).unwrap();
    assert_eq!(fs::read(&path).unwrap(), gguf(2));
    assert!(path.ends_with(Path::new("snapshots/abc/q/b.gguf")));
    assert!(matches!(case.get_repo("o/n/c.gguf", quiet), Err(Error::NoWeights { .. })));
    // a second file of the same commit joins the first
    let path = case.get_repo("o/n/a.gguf", quiet).unwrap();
    assert_eq!(fs::read(path).unwrap(), gguf(1));
}

#[test]
fn listings_that_are_not() {
    let case = Case::with(&[("README.md", vec![0])]);
    assert!(matches!(case.get(), Err(Error::NoWeights { .. })));
}

#[test]
fn a_name_resolves_through_the_hub_once() {
    let case = Case::new();
    let config =
        Config { hub_cache: Some(case.cache.path().to_owned()), hub: Some(case.reach.clone()), ..Config::default() };
    for _ in 0..2 {
        let found = resolve("o/n", &config, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(found.id, "o/n");
    }
    assert_eq!(case.hub.asked(WEIGHTS).len(), 1);
    assert_eq!(case.hub.asked("?blobs=true").len(), 1, "what is here is not asked for");
}
