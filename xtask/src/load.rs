//! `load`: many clients at once on a real server, for as long as one likes.
//!
//! What it holds the server to: nothing hangs, every answer is well formed, memory after the first minute does not grow, and
//! when all have gone no request and no cache block is left. Two figures besides: tokens per second of one stream and of
//! eight, and how long a short request waits beside a prompt of 4,000 tokens. On loopback only.

mod client;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use self::client::{Dice, End};
use crate::models;
use crate::server::{self, Server, http};
use crate::shell::{self, Done, Failed, Flags};

const MODEL: &str = "smollm2-135m-instruct";
const FIRST_PORT: u16 = 8100;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Small enough to be full of what the first minute's requests left behind, so that growth after it is a leak.
const CACHE: &str = "512MiB";
/// The same for what is kept beside it, which by itself grows for as long as there is memory.
const RAM: &str = "64MiB";
/// Memory may be this much above its size after the first minute.
const GROWTH: f64 = 1.05;
/// How long the server may take to see that all have gone.
const SETTLE: Duration = Duration::from_secs(20);
/// Short requests beside a long prompt.
const BESIDE: usize = 20;

struct Plan {
    clients: usize,
    minutes: f64,
    seed: u64,
}

/// What all clients saw.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    refused: AtomicUsize,
    left: AtomicUsize,
    faults: Mutex<Vec<String>>,
}

/// Its part of the help.
pub(crate) const HELP: &str =
    "  load              Many clients at once on a real server: short and long prompts, streams, clients that leave.
                    Every answer has to be well formed, nothing may hang, memory may not grow.
      --clients N       64 unless given
      --minutes N       10 unless given
      --seed N          draws the same prompts again, 1 unless given
";

/// `cargo xtask load`.
pub(crate) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let mut number = |name: &'static str, default: f64| -> Done<f64> {
        let given = flags.value(name)?;
        let bad = || Failed::usage(format!("{name} needs a number"));
        given.map_or(Ok(default), |text| text.parse().ok().filter(|n: &f64| *n >= 0.0).ok_or_else(bad))
    };
    let (clients, minutes, seed) = (number("--clients", 64.0)?, number("--minutes", 10.0)?, number("--seed", 1.0)?);
    flags.end()?;
    let plan = Plan { clients: (clients as usize).max(1), minutes, seed: seed as u64 };

    let model = models::ensure(MODEL)?;
    shell::run(&mut shell::cargo(["build", "--release", "--workspace", "--bin", "omlx-server"]))?;
    let port = server::free_port(FIRST_PORT)?;
    let mut server = Server::start(&model, port, &["--log-level", "warn", "--kv-memory", CACHE, "--cache-ram", RAM])?;
    let id = server.wait()?;
    streams(port, &id)?;
    beside(port, &id)?;
    crowd(&plan, &server, port, &id)?;
    server.stop()
}

/// All clients until the time is up, then the checks.
fn crowd(plan: &Plan, server: &Server, port: u16, id: &str) -> Done {
    let seen = Seen::default();
    let end = Instant::now() + Duration::from_secs_f64(60.0 * plan.minutes);
    let mut sizes: Vec<(Duration, u64)> = Vec::new();
    thread::scope(|scope| {
        for i in 0..plan.clients {
            let (seen, mut dice) = (&seen, Dice(plan.seed.wrapping_mul(1_000_003) + i as u64));
            scope.spawn(move || {
                while Instant::now() < end {
                    match client::request(port, id, &mut dice) {
                        Ok(End::Answered) => _ = seen.answered.fetch_add(1, Ordering::Relaxed),
                        Ok(End::Left) => _ = seen.left.fetch_add(1, Ordering::Relaxed),
                        Ok(End::Refused) => {
                            seen.refused.fetch_add(1, Ordering::Relaxed);
                            thread::sleep(Duration::from_secs(1)); // as Retry-After says
                        }
                        Err(fault) => seen.faults.lock().unwrap_or_else(|e| e.into_inner()).push(fault),
                    }
                }
            });
        }
        let begin = Instant::now();
        while Instant::now() < end {
            thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            sizes.extend(resident(server.pid()).map(|bytes| (begin.elapsed(), bytes)));
        }
    });
    let count = |n: &AtomicUsize| n.load(Ordering::Relaxed);
    println!(
        "{} clients, {} minutes: {} answered, {} refused with a reason, {} left by us",
        plan.clients,
        plan.minutes,
        count(&seen.answered),
        count(&seen.refused),
        count(&seen.left)
    );
    let mut faults = seen.faults.into_inner().unwrap_or_else(|e| e.into_inner());
    faults.extend(settled(port));
    faults.extend(grown(&sizes, resident(server.pid())));
    match faults.as_slice() {
        [] => Ok(()),
        faults => Err(Failed::new(format!("{} faults, the first: {}", faults.len(), faults[0]))),
    }
}

/// A complaint, unless every request and every block is given back.
fn settled(port: u16) -> Option<String> {
    let begin = Instant::now();
    loop {
        let state = http::request(port, "GET", "/health", "");
        let model = state.as_ref().map(|state| state["models"][0].clone()).unwrap_or_default();
        let zero = |field: &str| model[field] == 0;
        if zero("running") && zero("waiting") && model["blocks"].is_u64() && model["blocks"] == model["blocks_free"] {
            println!("all blocks free: {} of {}", model["blocks_free"], model["blocks"]);
            return None;
        }
        if begin.elapsed() > SETTLE {
            return Some(format!("not everything was given back: {model}"));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// A complaint, if memory grew after its first minute.
fn grown(sizes: &[(Duration, u64)], last: Option<u64>) -> Option<String> {
    let early = sizes.iter().filter(|(at, _)| *at <= Duration::from_secs(65)).map(|(_, bytes)| *bytes).next_back()?;
    let (last, mib) = (last?, |bytes: u64| bytes as f64 / f64::from(1 << 20));
    println!("resident memory: {:.0} MiB after a minute, {:.0} MiB at the end", mib(early), mib(last));
    (last as f64 > early as f64 * GROWTH).then(|| format!("memory grew from {early} to {last} bytes"))
}

/// Resident bytes of a process, where the system says so in a file.
fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Tokens per second of one stream and of eight.
fn streams(port: u16, id: &str) -> Done {
    const TOKENS: u64 = 96;
    let rate = |count: u64| -> Done<f64> {
        let before = generated(port)?;
        let begin = Instant::now();
        thread::scope(|scope| {
            for i in 0..count {
                let mut dice = Dice(77 + i);
                let body = json!({"model": id, "max_tokens": TOKENS, "ignore_eos": true, "temperature": 0, "stream": true,
                    "messages": [{"role": "user", "content": client::prompt(&mut dice, 20)}]});
                scope.spawn(move || client::exchange(port, &body, None));
            }
        });
        Ok((generated(port)? - before) as f64 / begin.elapsed().as_secs_f64())
    };
    rate(1)?; // first touch
    let (one, eight) = (rate(1)?, rate(8)?);
    println!("one stream {one:.1} tokens/s, eight streams {eight:.1}: {:.2} times", eight / one);
    Ok(())
}

fn generated(port: u16) -> Done<u64> {
    let state = http::request(port, "GET", "/health", "")?;
    let count = state["models"][0]["generated_tokens"].as_u64();
    count.ok_or_else(|| Failed::new(format!("/health counts no tokens: {state}")))
}

/// How long a short request waits for its first token while a prompt of about 4,000 tokens is read, in chunks of that prompt.
fn beside(port: u16, id: &str) -> Done {
    let body = |dice: &mut Dice, words: u64| json!({"model": id, "max_tokens": 1, "messages": [{"role": "user", "content": client::prompt(dice, words)}]});
    let mut dice = Dice(5);
    let begin = Instant::now();
    let answer = client::exchange(port, &body(&mut dice, 3500), None).map_err(Failed::new)?.unwrap_or_default();
    let alone = begin.elapsed();
    let tokens = http::parse(&answer).and_then(|answer| answer["usage"]["prompt_tokens"].as_u64()).unwrap_or(0);
    // the server's default of 256 tokens per step
    let chunk = alone.as_secs_f64() / tokens.div_ceil(256).max(1) as f64;
    let mut waits: Vec<f64> = Vec::new();
    thread::scope(|scope| -> Done {
        while waits.len() < BESIDE {
            let long = body(&mut dice, 3500);
            let reading = scope.spawn(move || client::exchange(port, &long, None));
            thread::sleep(alone.mul_f64(0.1));
            while !reading.is_finished() && waits.len() < BESIDE {
                let short = body(&mut dice, 8);
                let begin = Instant::now();
                client::exchange(port, &short, None).map_err(Failed::new)?;
                if !reading.is_finished() {
                    waits.push(begin.elapsed().as_secs_f64());
                }
            }
        }
        Ok(())
    })?;
    waits.sort_by(f64::total_cmp);
    let (median, p95) = (waits[waits.len() / 2], waits[waits.len() * 95 / 100]);
    println!(
        "a prompt of {tokens} tokens alone: {:.1} s, {:.0} ms a chunk; a short request beside it: median {:.0} ms, p95 {:.0} ms, \
         {:.2} and {:.2} chunks",
        alone.as_secs_f64(),
        1e3 * chunk,
        1e3 * median,
        1e3 * p95,
        median / chunk,
        p95 / chunk
    );
    Ok(())
}

#[cfg(test)]
mod tests;
