//! Killing a process that writes, at random moments: nothing it had finished is lost, nothing wrong is ever found.
//!
//! `OMLX_TIER_KILLS=100` kills a hundred times; twenty is the default.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use omlx_kv::tier::BlockStore;

use crate::sample::{chain, get, keys, open, taken};

/// Small enough that segments are closed and given up all the time.
const BUDGET: u64 = 8 << 20;
/// Chains whose blocks were acknowledged this recently have not been given up yet.
const RECENT: usize = 8;

fn chain_of(number: u32) -> Vec<omlx_kv::tier::Block> {
    chain(0, number, 6, [700, 9_000, 30_000][number as usize % 3])
}

/// Not a test of its own: the process that is killed. Writes chains for ever and says so after each.
#[test]
fn child() {
    let Ok(folder) = std::env::var("OMLX_TIER_CHILD") else {
        return;
    };
    let first: u32 = std::env::var("OMLX_TIER_FIRST").unwrap().parse().unwrap();
    let (store, _) = open(Path::new(&folder), BUDGET);
    for number in first.. {
        store.put(&chain_of(number)).unwrap();
        get(&store, &chain_of(number));
        println!("\nwritten {number}");
    }
}

/// Lets a child write for a while and kills it; the number of the last chain it acknowledged.
fn write_and_kill(folder: &Path, first: u32, life: Duration) -> Option<u32> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env("OMLX_TIER_CHILD", folder)
        .env("OMLX_TIER_FIRST", first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reads = std::thread::spawn(move || {
        let number = |line: String| line.strip_prefix("written ").and_then(|n| n.parse::<u32>().ok());
        lines.map_while(Result::ok).filter_map(number).last()
    });
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    reads.join().unwrap()
}

/// Seen to fail: a walk that ends after three records. A kill hardly ever comes in the middle of a write, so half records are the
/// business of `damage`: a walk beyond the file's end is caught there and not here.
#[test]
fn a_killed_process_loses_nothing_it_had_finished() {
    let kills: u32 = std::env::var("OMLX_TIER_KILLS").map_or(20, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (mut next, mut mended, mut random) = (0u32, 0, 0x9e37_79b9_7f4a_7c15_u64);
    for kill in 0..kills {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(kill.into());
        let life = Duration::from_micros(30_000 + (random >> 33) % 250_000);
        let last = write_and_kill(folder.path(), next, life);
        assert!(taken(folder.path()) <= BUDGET, "kill {kill}");
        let begin = Instant::now();
        let (store, opened) = open(folder.path(), BUDGET);
        assert!(begin.elapsed() < Duration::from_secs(3));
        mended += opened.mended.count;
        assert_eq!((opened.strays.count, opened.damaged.count), (0, 0), "kill {kill}: {opened}");
        assert_eq!(store.verify().bad.count, 0, "kill {kill}: something half written is found");
        if let Some(last) = last {
            for number in last.saturating_sub(RECENT as u32).max(next)..=last {
                assert_eq!(get(&store, &chain_of(number)), 6, "kill {kill}: chain {number} was finished");
            }
            next = last + 1;
        }
        // what it was in the middle of: some front of it, and that is right
        let half = chain_of(next);
        assert_eq!(get(&store, &half), store.leading(&keys(&half)));
        next += 1;
    }
    assert!(next > kills, "the children wrote hardly anything");
    assert!(mended > 0, "no kill came in the middle of anything");
}
