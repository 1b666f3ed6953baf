//! LIFE-1: a client that goes away takes its work with it, wherever the request stands.

use std::io::BufReader;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use omlx_fixtures::{RandomLlama, random_llama};
use serde_json::{Value, json};

use crate::client::{finish, first_event};
use crate::server::Server;

const CONTEXT: usize = 32_768;
/// Small enough that the cache's own pages do not look like growth.
const SMALL_CACHE: [&str; 2] = ["--kv-memory", "12MiB"];
const ROUNDS: usize = 20;

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

#[track_caller]
fn check(args: &[&str], leave: impl Fn(&Server, usize) -> BufReader<TcpStream>) {
    let (_dir, server) = serve(args);
    let short = json!({"model": "m", "prompt": "hello", "max_tokens": 3});
    server.completions(&short).send().ok();
    drop(leave(&server, 0));
    server.settle(Duration::from_secs(10));
    let memory = server.proc_status("VmRSS:");
    for round in 1..=ROUNDS {
        let socket = leave(&server, round);
        drop(socket);
    }
    server.settle(Duration::from_secs(10));
    server.completions(&short).send().ok();
    if let (Some(before), Some(after)) = (memory, server.proc_status("VmRSS:")) {
        assert!(after < before + 32 * 1024, "memory grew from {before} to {after} kB over {ROUNDS} rounds");
    }
}

#[test]
fn life_1_in_prefill() {
    check(&SMALL_CACHE, |server, round| {
        let socket = server.completions(&long(round, 4000, true)).open();
        thread::sleep(Duration::from_millis(20));
        socket
    });
}

#[test]
fn life_1_in_decode() {
    check(&SMALL_CACHE, |server, round| {
        let mut socket = server.completions(&long(round, 50, true)).open();
        first_event(&mut socket);
        socket
    });
}

#[test]
fn life_1_in_a_plain_answer() {
    check(&SMALL_CACHE, |server, round| {
        let socket = server.completions(&long(round, 50, false)).open();
        thread::sleep(Duration::from_millis(20));
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
    drop(waiting);
    crate::server::within(Duration::from_secs(10), || (server.busy() == (1, 0)).then_some(()));
    drop(running);
    server.settle(Duration::from_secs(10));
    server.completions(&json!({"model": "m", "prompt": "hello", "max_tokens": 3})).send().ok();
}

#[test]
fn life_1_while_the_model_loads() {
    let (_dir, server) = serve(&[]);
    for round in 0..ROUNDS {
        drop(server.completions(&long(round, 50, round % 2 == 0)).open());
    }
    server.completions(&json!({"model": "m", "prompt": "hello", "max_tokens": 3})).send().ok();
    server.settle(Duration::from_secs(10));
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
