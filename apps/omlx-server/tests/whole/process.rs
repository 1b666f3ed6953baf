//! The process itself: how it starts, refuses to start, rests and stops.

use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use omlx_fixtures::{RandomLlama, random_llama, tiny};
use serde_json::{Value, json};

use crate::client::{finish, first_event};
use crate::server::{Server, command, fails, failure, within};

fn llama() -> String {
    tiny("llama").to_str().unwrap().to_owned()
}

/// A model that writes for long: thousands of tokens, no end token.
fn writer() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    random_llama(&dir.path().join("m"), &RandomLlama { context: 65536, ..RandomLlama::default() });
    let server = Server::of(dir.path(), &["--max-concurrent", "2"]);
    (dir, server)
}

fn write(tokens: usize) -> Value {
    json!({"model": "m", "prompt": "x", "max_tokens": tokens, "temperature": 0, "stream": true})
}

#[test]
fn the_start_says_where_and_how_to_ask() {
    let server = Server::start(&["--model", &llama()]);
    let output = server.output();
    for part in
        ["Listening on http://127.0.0.1:", "curl http://127.0.0.1:", "\"model\": \"llama\"", "this machine only"]
    {
        assert!(output.contains(part), "no {part:?} in {output}");
    }
}

#[test]
fn help_is_worth_reading() {
    let output = command().arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for part in ["--model-dir", "OMLX_API_KEY", "[default: 8000]", "EXAMPLES", "Network", "25%", "second", "HF_TOKEN"] {
        assert!(help.contains(part), "no {part:?} in {help}");
    }
    // clap has wrapped it, and nothing was wrapped before: seen to fail with lines of 105 characters in the text.
    let short =
        help.lines().skip_while(|l| *l != "MODELS").take_while(|l| *l != "ENVIRONMENT").filter(|l| l.len() < 60);
    assert!(short.count() <= 3, "{help}");
    let longest = help.lines().map(|l| l.chars().count()).max().unwrap();
    assert!(longest <= 120, "a line of {longest} characters: {help}");
}

#[test]
fn a_port_that_is_taken_is_told_with_a_way_out() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let said = fails(&["--model", &llama(), "--port", &port]);
    assert!(said.contains(&port) && said.contains("--port"), "{said}");
    // Seen to fail: the system's own words behind ours.
    assert_eq!(said.matches("use").count() + said.matches("Address").count(), 1, "told once: {said}");
}

#[test]
fn sec_1_other_machines_need_a_key_or_a_word() {
    let said = fails(&["--model", &llama(), "--port", "0", "--host", "0.0.0.0"]);
    assert!(said.contains("OMLX_API_KEY") && said.contains("--no-auth"), "{said}");
    let open = Server::start(&["--model", &llama(), "--host", "0.0.0.0", "--no-auth"]);
    assert!(open.output().contains("ANYONE"), "{}", open.output());
    let keyed = Server::start_with(
        command().args(["--model", &llama(), "--port", "0", "--host", "0.0.0.0"]).env("OMLX_API_KEY", "k-test-2"),
    );
    assert_eq!(keyed.get("/v1/models").status, 401);
    assert!(!keyed.output().contains("k-test-2"));
    let help = command().arg("--help").env("OMLX_API_KEY", "k-test-3").output().unwrap();
    assert!(!String::from_utf8(help.stdout).unwrap().contains("k-test-3"));
}

#[test]
fn sec_1_a_foreign_host_name_is_refused_without_a_key() {
    let server = Server::start(&["--model", &llama()]);
    let request = format!("GET /v1/models HTTP/1.1\r\nHost: evil.example:{}\r\nConnection: close\r\n\r\n", server.port);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    assert_eq!(finish(std::io::BufReader::new(stream)).status, 403);
}

/// A fixed size never grows, so nobody is invited to ask.
#[test]
fn a_cache_too_small_for_the_model_ends_the_start() {
    let said = fails(&["--model", &llama(), "--port", "0", "--kv-memory", "1KB"]);
    assert!(said.contains("too small") && said.contains("raise --kv-memory, which is 1000 B"), "{said}");
    let said = fails(&["--model", &llama(), "--port", "0", "--kv-memory", "0.0000001%"]);
    assert!(said.contains("raise --kv-memory, which is 0.0000001% of the memory that is free"), "{said}");
    assert_eq!(said.matches("raise").count(), 1, "{said}");
}

/// Memory may be there later, but a server whose only model found none has nothing to invite to.
#[test]
fn a_model_that_finds_no_memory_ends_the_start_unless_another_is_there() {
    let said = fails(&["--model", &llama(), "--port", "0", "--memory-guard", "1MB"]);
    assert!(said.contains("no model can be served") && said.contains("raise --memory-guard"), "{said}");
    let dir = tempfile::tempdir().unwrap();
    random_llama(&dir.path().join("other"), &RandomLlama::default());
    let server = Server::of(dir.path(), &["--model", &llama(), "--memory-guard", "1MB"]);
    let output = server.output();
    assert!(
        output.contains("not loaded      llama: no memory now") && output.contains("\"model\": \"other\""),
        "{output}"
    );
    assert!(output.contains("raise --memory-guard"), "the log says why: {output}");
}

/// A name, a path and a folder above lead to one name; what the help says.
#[test]
fn a_model_has_one_name_however_it_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let shelf = home.path().join("shelf");
    random_llama(&shelf.join("sub/m"), &RandomLlama::default());
    let path = shelf.join("sub/m");
    for asked in ["m", "sub/m", path.to_str().unwrap()] {
        for (flags, name) in [(vec![], "m"), (vec!["--model-dir", shelf.to_str().unwrap()], "sub/m")] {
            let mut command = command();
            command.env("OMLX_MODELS", &shelf).args(["--port", "0", "--offline", "--model", asked]).args(flags);
            let server = Server::start_with(&mut command);
            assert_eq!(server.get("/v1/models").ok()["data"][0]["id"], name, "{asked}");
        }
    }
}

#[test]
fn a_folder_without_a_model_and_a_file_for_a_folder_are_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let (docs, file) = (dir.path().join("docs"), dir.path().join("README.md"));
    std::fs::create_dir(&docs).unwrap();
    std::fs::write(&file, "# no model").unwrap();
    let said = fails(&["--port", "0", "--offline", "--model", docs.to_str().unwrap()]);
    assert_eq!(said.matches("docs").count(), 1, "{said}");
    let said = fails(&["--port", "0", "--model-dir", file.to_str().unwrap()]);
    assert!(said.contains("README.md: a file; give the folder that holds the models"), "{said}");
}

#[test]
fn a_stop_does_not_wait_for_half_a_request() {
    let mut server = Server::start(&["--model", &llama()]);
    let halves = [
        "GET /health HTTP/1.1\r\nHost: 127",
        "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    ];
    let _open: Vec<TcpStream> = halves
        .iter()
        .map(|half| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            std::io::Write::write_all(&mut stream, half.as_bytes()).unwrap();
            stream
        })
        .collect();
    server.get("/health").ok();
    server.signal("TERM");
    assert!(server.ended(Duration::from_secs(5)).success());
}

#[test]
fn a_stop_lets_running_answers_finish() {
    let (_dir, mut server) = writer();
    let mut stream = server.completions(&write(400)).open();
    first_event(&mut stream);
    server.signal("TERM");
    let port = server.port;
    within(Duration::from_secs(5), || TcpStream::connect(("127.0.0.1", port)).is_err().then_some(()));
    let answer = finish_after_first(stream);
    assert!(answer.ends_with("data: [DONE]"), "{answer}");
    assert!(server.ended(Duration::from_secs(10)).success());
}

/// A terminal that is closed ends what was started in it as Ctrl-C does, and not what was to outlive it.
#[cfg(target_os = "linux")]
#[test]
fn a_closed_terminal_lets_running_answers_finish_and_nohup_outlives_it() {
    let (_dir, mut server) = writer();
    let mut stream = server.completions(&write(400)).open();
    first_event(&mut stream);
    server.signal("HUP");
    let answer = finish_after_first(stream);
    assert!(answer.ends_with("data: [DONE]"), "{answer}");
    assert!(server.ended(Duration::from_secs(10)).success());

    let mut nohup = Command::new("nohup");
    nohup.args([env!("CARGO_BIN_EXE_omlx-server"), "--port", "0", "--model", &llama()]);
    let mut server = Server::start_with(nohup.env_remove("OMLX_API_KEY"));
    server.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    server.completions(&json!({"model": "llama", "prompt": "a", "max_tokens": 2})).send().ok();
    server.signal("TERM");
    assert!(server.ended(Duration::from_secs(5)).success());
}

#[test]
fn a_second_signal_ends_at_once() {
    let (_dir, mut server) = writer();
    let mut stream = server.completions(&write(60_000)).open();
    first_event(&mut stream);
    server.signal("INT");
    std::thread::sleep(Duration::from_millis(200));
    let start = Instant::now();
    server.signal("INT");
    assert!(!server.ended(Duration::from_secs(5)).success());
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[test]
fn an_idle_server_stops_at_once_and_cleanly() {
    let mut server = Server::start(&["--model", &llama()]);
    server.completions(&json!({"model": "llama", "prompt": "a", "max_tokens": 2})).send().ok();
    server.signal("TERM");
    assert!(server.ended(Duration::from_secs(3)).success());
}

/// Seen to fail with one task that wakes every millisecond.
#[test]
fn an_idle_server_uses_no_processor() {
    let server = Server::start(&["--model", &llama()]);
    rests(&server, "before the first request");
    server.completions(&json!({"model": "llama", "prompt": "a", "max_tokens": 8})).send().ok();
    rests(&server, "after an answer");
    let mut left =
        server.completions(&json!({"model": "llama", "prompt": "a", "max_tokens": 400, "stream": true})).open();
    first_event(&mut left);
    drop(left);
    server.settle(Duration::from_secs(10));
    rests(&server, "after a client that went away");
    // A connection that is kept open and says nothing.
    let _open = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    rests(&server, "with a silent client");
}

/// Only the server's own time is counted, so other programs do not matter; but on a busy machine what is left to do after an
/// answer may come late, so of several spans the quietest counts. A server that does not rest is busy in all of them.
#[track_caller]
fn rests(server: &Server, when: &str) {
    let mut least = u64::MAX;
    for _ in 0..5 {
        let Some(before) = server.ticks() else { return };
        std::thread::sleep(Duration::from_millis(1500));
        least = least.min(server.ticks().unwrap() - before);
        if least == 0 {
            return;
        }
    }
    // a tick is a hundredth of a second
    assert!(least <= 1, "{least} ticks in 1.5 idle seconds {when}");
}

#[test]
fn prompts_and_answers_are_not_logged() {
    let server = Server::start(&["--model", &llama(), "--log-level", "trace"]);
    let prompt = "the-secret-prompt-text";
    server.completions(&json!({"model": "llama", "prompt": prompt, "max_tokens": 4})).send().ok();
    server
        .chat(&json!({"model": "llama", "messages": [{"role": "user", "content": prompt}], "max_tokens": 4}))
        .send()
        .ok();
    server
        .chat(&json!({"model": "llama", "messages": [{"role": "user", "content": prompt}], "temperature": prompt}))
        .send();
    assert!(!server.output().contains(prompt), "{}", server.output());
}

/// The rest of a stream whose head was read before.
fn finish_after_first(stream: std::io::BufReader<TcpStream>) -> String {
    use std::io::BufRead;
    let lines: Vec<String> = stream.lines().map_while(Result::ok).filter(|l| l.starts_with("data: ")).collect();
    lines.join("\n")
}

#[test]
fn nothing_to_serve_is_told_with_every_way() {
    let output = command().output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in ["--model-dir DIR", "--model PATH", "OWNER/NAME", "omlx/models", "cargo xtask demo"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}

#[test]
fn a_wrong_name_is_said_once_with_those_that_are_near() {
    let dir = tempfile::tempdir().unwrap();
    random_llama(&dir.path().join("smollm2-135m-instruct"), &RandomLlama::default());
    let dir = dir.path().to_str().unwrap();
    let said = fails(&["--port", "0", "--offline", "--model-dir", dir, "--model", "smolm2-135m"]);
    assert_eq!(said.matches("smolm2-135m").count(), 1, "{said}");
    assert!(said.contains("here is smollm2-135m-instruct") && !said.contains("backtrace"), "{said}");
}

#[test]
fn a_load_says_what_is_in_force() {
    let server = Server::start(&["--model", &llama(), "--context", "999999", "--top-p", "0.9"]);
    let output = server.output();
    for part in ["top_p 0.9 (--top-p)", "min_p 0 (built in)", "(loaded, context 512)"] {
        assert!(output.contains(part), "no {part:?} in {output}");
    }
}

/// The number in the refusal is the rule. Seen to fail: 224 named, and 125 enough.
#[cfg(target_os = "linux")]
#[test]
fn so_many_open_files_as_a_refusal_names_are_enough() {
    let limited = |files: u64| {
        let mut shell = Command::new("sh");
        let start = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        shell.args(["-c", &start, env!("CARGO_BIN_EXE_omlx-server"), "--port", "0", "--model", &llama()]);
        shell.env_remove("OMLX_API_KEY");
        shell
    };
    let said = failure(&mut limited(60));
    let least: u64 = said.split("at least ").nth(1).and_then(|rest| rest.split(';').next()?.parse().ok()).unwrap();
    assert!(said.contains("may open 60 files"), "{said}");
    assert!(failure(&mut limited(least - 1)).contains("at least"));
    let server = Server::start_with(&mut limited(least));
    server.completions(&json!({"model": "llama", "prompt": "a", "max_tokens": 2})).send().ok();
}

/// A full disk, or a pipe that nobody reads any more. Seen to fail: the line that could not be written took the answer along.
#[test]
#[cfg(target_os = "linux")]
fn a_log_that_cannot_be_written_costs_no_answer() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" 2>/dev/full", env!("CARGO_BIN_EXE_omlx-server"), "--port", "0", "--model"]);
    let server = Server::start_with(shell.arg(llama()).env_remove("OMLX_API_KEY"));
    for _ in 0..3 {
        server.completions(&json!({"model": "llama", "prompt": "a", "max_tokens": 2})).send().ok();
        assert_eq!(server.get("/v1/models").status, 200);
        assert_eq!(server.get("/nowhere").status, 404);
    }
}

/// As from a shell variable that is not set. Seen to fail: the key of the environment switched off without a word.
#[test]
fn an_empty_key_is_refused_also_beside_the_variable() {
    let args = ["--model", &llama(), "--port", "0", "--api-key", ""];
    for variable in [None, Some("k-test-4")] {
        let mut command = command();
        let said = failure(command.args(args).envs(variable.map(|key| ("OMLX_API_KEY", key))));
        assert!(said.contains("--api-key is empty"), "{said}");
    }
}

/// clap alone speaks of arguments, and there is none.
#[cfg(unix)]
#[test]
fn a_key_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStringExt as _;
    let key = std::ffi::OsString::from_vec(vec![b'k', 0xff]);
    let said = failure(command().args(["--model", &llama(), "--port", "0"]).env("OMLX_API_KEY", key));
    assert!(said.contains("OMLX_API_KEY is not valid UTF-8"), "{said}");
}
