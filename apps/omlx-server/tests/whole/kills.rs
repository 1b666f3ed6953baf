//! A server that is killed at random moments while clients ask, start after start on one folder of the prefix cache.
//!
//! Clients share beginnings, the budget is small enough that files are finished and given up all the time, and some kills come
//! while the server is still starting. Held to at every start: it starts, says nothing of damage, leaves no file that is not its own, keeps the
//! budget; and every whole answer, before a kill and after it, has the log-probabilities of a server without a cache.
//!
//! `cargo xtask kills` sets how often, from which seed, and which model: `KILLS_ROUNDS`, `KILLS_SEED`, `KILLS_MODEL`.
//!
//! Seen to fail: CAUGHT.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::prefixes::{House, files, prefixes, stop, text};
use crate::server::{Server, command, within};

/// What CI runs.
const ROUNDS: u64 = 5;
const CLIENTS: u64 = 4;
/// The longest that a server lives under load, and the longest that one lives that is killed while it starts.
const LIFE: Duration = Duration::from_millis(700);
const BIRTH: Duration = Duration::from_millis(150);
/// Starting prompts, and how many go on from each.
const STEMS: u64 = 4;
const ENDINGS: u64 = 5;

/// SplitMix64: the same seed, the same kills.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(most.as_micros() as u64))
    }
}

fn given(name: &str, unless: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(unless, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Whose answers are known.
struct Known {
    requests: Vec<Value>,
    expected: Vec<Value>,
}

/// Letters that look alike to no other stem; with real models, words that are no use to anybody.
fn letters(seed: u64, len: u64) -> String {
    (0..len).map(|i| char::from(b'a' + ((i * i + 7 * seed + i * seed) % 26) as u8)).collect()
}

impl Known {
    /// All requests, and what a server without a cache says to them.
    fn of(models: &[String], alone: &Server) -> Self {
        let mut requests = Vec::new();
        for model in models {
            for (stem, ending) in (0..STEMS).flat_map(|stem| (0..ENDINGS).map(move |ending| (stem, ending))) {
                // Of five lengths, the shortest of which is the beginning of the others.
                let prompt = letters(stem, 60 + 70 * ending) + &letters(100 + ending, 8 * ending);
                requests
                    .push(json!({"model": model, "prompt": prompt, "max_tokens": 5, "temperature": 0, "logprobs": 5}));
            }
        }
        let said = |request: &Value| alone.completions(request).send().ok()["choices"].clone();
        let expected = requests.iter().map(said).collect();
        Self { requests, expected }
    }

    /// Asks for one of them. `None` where the connection broke, which is what a killed server does; else how many tokens were found.
    fn ask(&self, port: u16, dice: &mut Dice) -> Option<u64> {
        let at = dice.below(self.requests.len() as u64) as usize;
        let answer = exchange(port, &self.requests[at])?;
        assert_eq!(answer["choices"], self.expected[at], "a wrong answer to {}: {answer}", self.requests[at]);
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64()
    }
}

/// One request and its whole answer, if there was one.
fn exchange(port: u16, body: &Value) -> Option<Value> {
    let body = body.to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.0\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    socket.write_all((head + &body).as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let answer = serde_json::from_str(body).ok()?; // half an answer is none
    assert!(head.split(' ').nth(1) == Some("200"), "{head}\n{body}");
    Some(answer)
}

/// The server that is killed again and again.
struct Victim {
    models: PathBuf,
    kept: PathBuf,
    budget: u64,
}

impl Victim {
    fn command(&self, dice: &mut Dice) -> Command {
        let mut command = command();
        command.args(["--port", "0", "--block", "16", "--log-level", "info", "--model-dir"]).arg(&self.models);
        let budget = format!("{}MiB", self.budget >> 20);
        command.arg("--cache-dir").arg(&self.kept).args(["--cache-disk", &budget]);
        command.args(["--cache-ram", ["off", "1MiB", "64MiB"][dice.below(3) as usize]]);
        // With few blocks of its own, what it gives up goes to the slower places while it runs.
        command.args([["--max-concurrent", "2"], ["--max-concurrent", "8"]][dice.below(2) as usize]);
        command
    }

    /// Killed before it has said a word, or when it just has.
    fn is_killed_at_birth(&self, dice: &mut Dice) {
        let mut child = self.command(dice).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(dice.up_to(BIRTH));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Clients ask until a kill comes. How many whole answers there were, and how many tokens of them were found.
    fn is_killed_under_load(&self, known: &Known, dice: &mut Dice) -> (u64, u64) {
        let mut server = self.starts(dice);
        let life = dice.up_to(LIFE);
        let (over, answers, found) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let (mut dice, over, answers, found) = (Dice(dice.below(u64::MAX)), &over, &answers, &found);
                let port = server.port;
                scope.spawn(move || {
                    while !over.load(Ordering::SeqCst) {
                        if let Some(cached) = known.ask(port, &mut dice) {
                            answers.fetch_add(1, Ordering::SeqCst);
                            found.fetch_add(cached, Ordering::SeqCst);
                        }
                    }
                });
            }
            thread::sleep(life);
            server.signal("KILL");
            server.ended(Duration::from_secs(20));
            over.store(true, Ordering::SeqCst);
        });
        (answers.into_inner(), found.into_inner())
    }

    /// Starts, and has nothing to complain of.
    fn starts(&self, dice: &mut Dice) -> Server {
        let server = Server::start_with(&mut self.command(dice));
        // The log and the rest of its words come by two pipes.
        let find = || server.output().lines().find(|line| line.contains("prefix cache in")).map(str::to_owned);
        let line = within(Duration::from_secs(10), find);
        assert!(!line.contains("WARN") && !line.contains("cannot be read") && !line.contains("left alone"), "{line}");
        server
    }

    /// What a kill may leave behind: whole and half segments, the lock, and nothing else, within the budget.
    fn is_tidy(&self) {
        // Killed before it had made one.
        if !self.kept.exists() {
            return;
        }
        let mut bytes = 0;
        for file in files(&self.kept) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let ours = name == "lock" || name.starts_with("omlx-") && name.ends_with(".kv");
            assert!(ours, "a stale file: {name}");
            bytes += on_disk(&file);
        }
        assert!(bytes <= self.budget, "{bytes} of {} bytes", self.budget);
    }
}

fn on_disk(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len().next_multiple_of(4096)
}

#[test]
fn a_killed_server_finds_what_is_whole_and_nothing_else() {
    let (rounds, seed) = (given("KILLS_ROUNDS", ROUNDS), given("KILLS_SEED", 0));
    let house = House::new();
    let real = std::env::var("KILLS_MODEL").ok().map(PathBuf::from);
    // Some of the models' blocks are larger than others; a budget is a few prompts' in any case.
    let (models, budget) = match &real {
        Some(model) => (model.clone(), 256 << 20),
        None => (house.dir.path().join("models"), 3 << 20),
    };
    let alone = Server::of(&models, &["--block", "16", "--no-cache"]);
    let listed = alone.get("/v1/models").ok();
    let names: Vec<String> =
        listed["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().to_owned()).collect();
    let known = Known::of(&names, &alone);
    drop(alone);

    let victim = Victim { models, kept: house.kept(), budget };
    let mut dice = Dice(seed);
    let (mut answers, mut found, mut restored, mut births) = (0, 0, 0, 0);
    for round in 0..rounds {
        eprintln!("round {round}: {answers} answers, {found} tokens found, {restored} blocks brought back");
        if dice.below(4) == 0 {
            victim.is_killed_at_birth(&mut dice);
            births += 1;
        }
        victim.is_tidy();
        let (more, tokens) = victim.is_killed_under_load(&known, &mut dice);
        (answers, found) = (answers + more, found + tokens);
        victim.is_tidy();
        // Somebody starts it again and looks closely.
        let server = victim.starts(&mut dice);
        for _ in 0..6 {
            found += known.ask(server.port, &mut dice).expect("nobody has killed it");
            answers += 1;
        }
        let seen = prefixes(&server);
        let disk = &seen["disk"];
        assert_eq!(disk["bad"], 0, "round {round}: {seen}");
        assert!(disk["bytes"].as_u64().unwrap() <= budget, "round {round}: {seen}");
        restored += seen["restored_blocks"].as_u64().unwrap();
        if dice.below(2) == 0 {
            stop(server);
        }
    }
    victim.is_tidy();
    let verified = house.cache("verify");
    assert!(verified.status.success(), "{}", text(&verified));
    eprintln!(
        "{rounds} rounds, {births} kills at birth: {answers} answers, {found} tokens found, {restored} blocks brought back"
    );
    assert!(answers >= 6 * rounds && restored > 0, "nothing was tested");
}
