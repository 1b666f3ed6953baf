//! LIFE-1: a client that goes away takes its work with it, wherever the request stands.

use std::io::BufReader;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use omlx_fixtures::{RandomLlama, random_llama};
use serde_json::{Value, json};

use crate::client::{finish, first_event};
use crate::server::Server;

const CONTEXT: usize = 32_768;
/// Small enough that the cache's own pages do not look like growth, nor what is kept beside it.
const SMALL_CACHE: [&str; 4] = ["--kv-memory", "12MiB", "--cache-ram", "8MiB"];
const ROUNDS: usize = 50;

fn serve(args: &[&str]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    random_llama(&dir.path().join("m"), &RandomLlama { context: CONTEXT, ..RandomLlama::default() });
    let server = Server::of(dir.path(), args);
    (dir, server)
}

/// A prompt that no earlier one shares blocks with.
fn prompt(tokens: usize, salt: usize) -> String {
    format!("{salt:08}") + &"lorem ipsum dolor sit amet ".repeat(tokens.div_ceil(27))[..tokens - 8]
}

fn long(salt: usize, prompt_tokens: usize, stream: bool) -> Value {
    json!({"model": "m", "prompt": prompt(prompt_tokens, salt), "max_tokens": 30_000, "stream": stream})
}

/// What the engine did in all: prompt tokens computed, tokens generated.
fn work(server: &Server) -> (u64, u64) {
    let status = server.get("/api/status").ok();
    let model = &status["models"][0];
    (model["prompt_tokens"].as_u64().unwrap(), model["generated_tokens"].as_u64().unwrap())
}

/// Leaves again and again, so many `at_once`; gives what the engine did meanwhile.
#[track_caller]
fn check(args: &[&str], at_once: usize, leave: impl Fn(&Server, usize) -> BufReader<TcpStream>) -> (u64, u64) {
    let (_dir, server) = serve(args);
    let short = json!({"model": "m", "prompt": "hello", "max_tokens": 3});
    server.completions(&short).send().ok();
    drop(leave(&server, 0));
    server.settle(Duration::from_secs(10));
    let (memory, before) = (server.proc_status("VmRSS:"), work(&server));
    let mut took = Vec::new();
    for round in 1..=ROUNDS / at_once {
        let sockets: Vec<_> = (0..at_once).map(|n| leave(&server, round * at_once + n)).collect();
        let left = Instant::now();
        drop(sockets);
        server.settle(Duration::from_secs(20));
        took.push(left.elapsed());
    }
    let after = work(&server);
    // The case's limit. The median, since the machine of a test may pause for longer than that.
    took.sort();
    assert!(took[took.len() / 2] < Duration::from_secs(1), "{took:?}");
    server.completions(&short).send().ok();
    if let (Some(before), Some(after)) = (memory, server.proc_status("VmRSS:")) {
        assert!(after < before + 32 * 1024, "memory grew from {before} to {after} kB over {ROUNDS} rounds");
    }
    (after.0 - before.0, after.1 - before.1)
}

/// Seen to fail: a request that is not cancelled before its first token.
#[test]
fn life_1_in_prefill() {
    const PROMPT: usize = 5_000;
    // Room for five of them, and long enough to be left in the middle.
    let small_steps = ["--kv-memory", "26MiB", "--cache-ram", "1MiB", "--step-tokens", "8"];
    let (prompts, _) = check(&small_steps, 5, |server, round| {
        let (before, _) = server.busy();
        let socket = server.completions(&long(round, PROMPT, true)).open();
        crate::server::within(Duration::from_secs(20), || (server.busy().0 > before).then_some(()));
        socket
    });
    assert!(prompts < (ROUNDS * PROMPT * 9 / 10) as u64, "{prompts} prompt tokens were computed for nobody");
}

#[test]
fn life_1_in_decode() {
    check(&SMALL_CACHE, 1, |server, round| {
        let mut socket = server.completions(&long(round, 50, true)).open();
        first_event(&mut socket);
        socket
    });
}

#[test]
fn life_1_in_a_plain_answer() {
    check(&SMALL_CACHE, 5, |server, round| {
        let socket = server.completions(&long(round, 50, false)).open();
        let (_, before) = work(server);
        crate::server::within(Duration::from_secs(20), || (work(server).1 > before).then_some(()));
        socket
    });
}

/// Bytes behind the body must not keep the server from noticing.
#[test]
fn life_1_in_a_plain_answer_with_bytes_behind_it() {
    let (_dir, server) = serve(&SMALL_CACHE);
    server.completions(&json!({"model": "m", "prompt": "hello", "max_tokens": 3})).send().ok();
    for rest in ["\r\n", "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"] {
        let mut socket = server.completions(&long(1, 50, false)).open();
        std::io::Write::write_all(socket.get_mut(), rest.as_bytes()).unwrap();
        crate::server::within(Duration::from_secs(5), || (server.busy() == (1, 0)).then_some(()));
        drop(socket);
        server.settle(Duration::from_secs(2));
    }
}

#[test]
fn life_1_in_the_queue() {
    let (_dir, server) = serve(&["--max-concurrent", "1"]);
    let mut running = server.completions(&long(0, 50, true)).open();
    first_event(&mut running);
    let waiting: Vec<_> =
        (1..=ROUNDS).map(|round| server.completions(&long(round, 50, round % 2 == 0)).open()).collect();
    crate::server::within(Duration::from_secs(10), || (server.busy().1 == ROUNDS as u64).then_some(()));
    let left = Instant::now();
    drop(waiting);
    crate::server::within(Duration::from_secs(20), || (server.busy() == (1, 0)).then_some(()));
    assert!(left.elapsed() < Duration::from_secs(5), "all at once, while another is answered");
    drop(running);
    server.settle(Duration::from_secs(10));
    server.completions(&json!({"model": "m", "prompt": "hello", "max_tokens": 3})).send().ok();
}

/// Each round has a model of its own, so that there is a load to leave.
#[test]
fn life_1_while_the_model_loads() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..ROUNDS {
        random_llama(&dir.path().join(format!("m{round}")), &RandomLlama::default());
    }
    let server = Server::of(dir.path(), &SMALL_CACHE);
    let loaded = || server.get("/health").ok()["models"].as_array().unwrap().len();
    let mut during = 0;
    for round in 0..ROUNDS {
        let mut request = long(round, 50, round % 2 == 0);
        request["model"] = format!("m{round}").into();
        drop(server.completions(&request).open());
        during += usize::from(loaded() == round);
        // The load goes on, for whoever asks next.
        crate::server::within(Duration::from_secs(20), || (loaded() == round + 1).then_some(()));
    }
    assert!(during > ROUNDS / 2, "only {during} of {ROUNDS} left during a load");
    // Each would write some ten thousand tokens if it were left alone.
    server.settle(Duration::from_secs(5));
    server.completions(&json!({"model": "m7", "prompt": "hello", "max_tokens": 3})).send().ok();
}

#[test]
fn many_at_once_are_all_answered_alike() {
    let (_dir, server) = serve(&["--max-concurrent", "4", "--step-tokens", "64"]);
    let request = |stream: bool| json!({"model": "m", "prompt": prompt(100, 1), "max_tokens": 20, "temperature": 0, "stream": stream});
    let expected = server.completions(&request(false)).send().ok()["choices"][0]["text"].clone();
    let sockets: Vec<_> = (0..16).map(|i| (i % 2 == 0, server.completions(&request(i % 2 == 0)).open())).collect();
    for (stream, socket) in sockets {
        let answer = finish(socket);
        let text = if stream {
            answer.events().iter().filter_map(|e| e["choices"][0]["text"].as_str()).collect::<String>().into()
        } else {
            answer.ok()["choices"][0]["text"].clone()
        };
        assert_eq!(text, expected);
    }
}
