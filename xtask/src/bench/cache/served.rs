//! The real server: the first token of a long prompt from each place, and decode while blocks are written behind.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::super::median;
use super::stream::{self, Served};
use super::{Plan, pages, row};
use crate::server::{self, Server, http};
use crate::shell::{Done, Failed};

const FIRST_PORT: u16 = 8200;
/// The long prompt.
const LONG: usize = 2000;
/// A KV cache that has room for one long prompt but not for two, so that the next ones drive it out.
const NARROW: [&str; 4] = ["--context", "3072", "--kv-memory", "160MiB"];
/// What a restored prompt may take of a computed one's time.
const DISK_SHARE: f64 = 0.15;
const RAM_SHARE: f64 = 0.05;
/// What is to be left of decode speed.
const LEAST_SPEED: f64 = 0.97;
/// Tokens of a prompt and of an answer whose decode is timed.
const SHORT: usize = 64;
const ANSWER: usize = 256;
/// Turns for each round that was asked for: the machine's noise is larger than what is looked for.
const TURNS: usize = 4;
/// How long a server may take to write what it has to.
const SETTLE: Duration = Duration::from_secs(60);

/// A server and where it keeps blocks, if it does on disk.
struct Side {
    server: Server,
    port: u16,
    model: String,
    folder: Option<PathBuf>,
}

impl Side {
    fn start(plan: &Plan, flags: &[&str], folder: Option<&Path>) -> Done<Self> {
        let port = server::free_port(FIRST_PORT)?;
        let mut all = vec!["--offline", "--log-level", "warn"];
        all.extend(flags);
        let text = folder.map(|folder| folder.display().to_string());
        all.extend(text.iter().flat_map(|folder| ["--cache-dir", folder]));
        let mut server = Server::start(&plan.model, port, &all)?;
        let model = server.wait()?;
        let side = Self { server, port, model, folder: folder.map(Path::to_owned) };
        side.first_token(&stream::prompt(SHORT, 1))?; // first touch of weights and pools
        Ok(side)
    }

    fn served(&self) -> Served<'_> {
        Served { port: self.port, model: &self.model }
    }

    fn first_token(&self, prompt: &[u64]) -> Done<(f64, u64)> {
        stream::first_token(self.served(), prompt)
    }

    /// Waits until everything is written that is to be, and makes sure that it would be read from the disk.
    fn settle(&self) -> Done {
        let Some(folder) = &self.folder else { return Ok(()) };
        let begin = Instant::now();
        loop {
            let state = http::request(self.port, "GET", "/api/status", "")?;
            match state["prefixes"]["waiting_blocks"].as_u64() {
                Some(0) => return pages::forget(folder),
                _ if begin.elapsed() > SETTLE => return Err(Failed::new(format!("blocks still wait: {state}"))),
                _ => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// Seconds of one long prompt computed and brought back.
struct Turn {
    cold: f64,
    back: f64,
}

pub(super) fn first(plan: &Plan) -> Done {
    let folder = Scratch::new(&plan.folder)?;
    let ram = Side::start(plan, &[&NARROW[..], &["--cache-ram", "1GiB"]].concat(), None)?;
    let disk = Side::start(plan, &[&NARROW[..], &["--cache-ram", "off"]].concat(), Some(&folder.0))?;
    let (mut from_ram, mut from_disk) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        from_ram.push(turn(&ram, round)?);
        from_disk.push(turn(&disk, round)?);
    }
    println!("\n| first token after {LONG} | s | of computing it | bar |\n|---|---|---|---|");
    let cold: Vec<f64> = from_ram.iter().chain(&from_disk).map(|turn| turn.cold).collect();
    println!("| computed | {:.2} | 1 | – |", middle(&cold));
    for (what, turns, most) in [("memory", from_ram, RAM_SHARE), ("disk, cold", from_disk, DISK_SHARE)] {
        let share = middle(&turns.iter().map(|turn| turn.back / turn.cold).collect::<Vec<_>>());
        let back = middle(&turns.iter().map(|turn| turn.back).collect::<Vec<_>>());
        let cells = [format!("from {what}"), format!("{back:.3}"), format!("{:.1} %", 100.0 * share)];
        println!("{}", row(&cells, share <= most, &format!("at most {:.0} %", 100.0 * most)));
    }
    ram.server.stop()?;
    disk.server.stop()
}

/// A prompt is computed, driven out of the KV cache by two others, and asked for again.
fn turn(side: &Side, round: usize) -> Done<Turn> {
    let prompt = |i: usize| stream::prompt(LONG, (10 + 3 * round + i) as u64);
    let (cold, cached) = side.first_token(&prompt(0))?;
    if cached > 0 {
        return Err(Failed::new(format!("{cached} tokens of a new prompt are known already")));
    }
    side.first_token(&prompt(1))?;
    side.first_token(&prompt(2))?;
    side.settle()?;
    let before = restored(side)?;
    let (back, cached) = side.first_token(&prompt(0))?;
    let came = restored(side)? - before;
    // all but what a last block that is not full may lack
    if (cached as usize) < LONG - 32 || came == 0 {
        return Err(Failed::new(format!("only {cached} of {LONG} tokens came back, in {came} blocks")));
    }
    Ok(Turn { cold, back })
}

fn restored(side: &Side) -> Done<u64> {
    let state = http::request(side.port, "GET", "/api/status", "")?;
    let count = state["prefixes"]["restored_blocks"].as_u64();
    count.ok_or_else(|| Failed::new(format!("the server counts no blocks: {state}")))
}

pub(super) fn behind(plan: &Plan) -> Done {
    let folder = Scratch::new(&plan.folder)?;
    let without = Side::start(plan, &["--kv-memory", "512MiB"], None)?;
    let with = Side::start(plan, &["--kv-memory", "512MiB"], Some(&folder.0))?;
    println!(
        "\n| decode | without | with | processor time | ratio | least | most | bar |\n|---|---|---|---|---|---|---|---|"
    );
    for streams in [1, 8] {
        let (mut plain, mut written, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let busy = || Some((ticks(without.server.pid())?, ticks(with.server.pid())?));
        let before = busy();
        for turn in 0..TURNS * plan.rounds {
            let seed = (1000 * streams + 10 * turn) as u64;
            let prompts: Vec<Vec<u64>> = (0..streams as u64).map(|i| stream::prompt(SHORT, seed + i)).collect();
            let of = |side: &Side| -> Done<f64> {
                let rate = stream::decode(side.served(), &prompts, ANSWER)?;
                side.settle()?; // what is written late is not to slow down the other side
                Ok(rate)
            };
            let (one, other) = if turn % 2 == 0 {
                let one = of(&without)?;
                (one, of(&with)?)
            } else {
                let other = of(&with)?;
                (of(&without)?, other)
            };
            plain.push(one);
            written.push(other);
            ratios.push(other / one);
        }
        let ratio = middle(&ratios);
        let (least, most) = ratios.iter().fold((f64::MAX, 0.0f64), |(a, b), r| (a.min(*r), b.max(*r)));
        let times = before.zip(busy()).map(|(before, after)| (after.1 - before.1) / (after.0 - before.0));
        let name = if streams == 1 { "1 stream".to_owned() } else { format!("{streams} streams") };
        let mut cells = vec![name, format!("{:.0}", middle(&plain)), format!("{:.0}", middle(&written))];
        cells.push(times.map_or_else(|| "–".to_owned(), |times| format!("{times:.3}")));
        cells.extend([ratio, least, most].map(|ratio| format!("{ratio:.3}")));
        println!("{}", row(&cells, ratio > LEAST_SPEED, "above 0.97"));
    }
    wrote(&with)?;
    without.server.stop()?;
    with.server.stop()
}

/// Processor time that a process has used, in the system's ticks, where it says so in a file. Others on the machine disturb it less than they
/// do a clock.
fn ticks(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    ticks_of(&stat)
}

pub(super) fn ticks_of(stat: &str) -> Option<f64> {
    // the name before the bracket may hold anything
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let [user, system] = [11, 12].map(|i| fields.get(i).and_then(|field| field.parse::<f64>().ok()));
    Some(user? + system?)
}

/// A comparison with a server that wrote nothing would be none.
fn wrote(side: &Side) -> Done {
    let state = http::request(side.port, "GET", "/api/status", "")?;
    match state["prefixes"]["disk"]["blocks"].as_u64() {
        Some(1..) => Ok(()),
        _ => Err(Failed::new(format!("nothing was written: {}", state["prefixes"]))),
    }
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// A folder that goes with us.
struct Scratch(PathBuf);

impl Scratch {
    fn new(below: &Path) -> Done<Self> {
        let folder = below.join(format!("omlx-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(Failed::at(&folder))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // what cannot be removed is left to whoever looks after such folders
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
