//! `--model OWNER/NAME`: fetched from a hub on loopback once, then served from this machine.
//!
//! Seen to be caught: the hub asked although the model is here.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use omlx_fixtures::{RandomLlama, random_llama, random_llama_gguf};
use serde_json::json;

use crate::server::{Server, command, failure, within};

const TOKEN: &str = "t-secret-1";

/// A hub with the repository `o/n`; what it is asked for is kept as (path, `Authorization`).
struct Hub {
    url: String,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Hub {
    /// Serves all files of a folder.
    fn of(folder: &Path) -> Self {
        let files: HashMap<String, Vec<u8>> = std::fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|e| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap()))
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let hub = Self { url: format!("http://{}", listener.local_addr().unwrap()), asked: Arc::default() };
        let asked = Arc::clone(&hub.asked);
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, &files, &asked)));
        hub
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, files: &HashMap<String, Vec<u8>>, asked: &Mutex<Vec<(String, String)>>) {
    let lines: Vec<String> =
        BufReader::new(&stream).lines().map_while(Result::ok).take_while(|l| !l.is_empty()).collect();
    let Some(path) = lines.first().and_then(|l| l.split(' ').nth(1)) else { return };
    let key = lines.iter().find_map(|l| l.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case("authorization")));
    asked.lock().unwrap().push((path.to_owned(), key.map_or("", |k| k.1).to_owned()));
    let siblings: Vec<_> = files
        .iter()
        .map(|(name, bytes)| json!({"rfilename": name, "size": bytes.len(), "blobId": format!("b-{name}")}))
        .collect();
    let listing = json!({"sha": "abc", "siblings": siblings}).to_string().into_bytes();
    let (status, body) = if path.starts_with("/api/models/o/n/revision/main") {
        (200, &listing[..])
    } else {
        let name = path.strip_prefix("/o/n/resolve/abc/").unwrap_or_default();
        files.get(name).map_or((404, &b""[..]), |bytes| (200, &bytes[..]))
    };
    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    // The client may have gone, which is its right.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// The server for a user whose home is `home`, who asks this hub.
fn user(hub: &Hub, home: &Path) -> Command {
    let mut command = command();
    for name in ["HTTPS_PROXY", "https_proxy", "HF_HOME", "XDG_CACHE_HOME", "OMLX_MODELS"] {
        command.env_remove(name);
    }
    command.env("HOME", home).env("HF_HUB_CACHE", home.join("hub")).env("HF_ENDPOINT", &hub.url).env("HF_TOKEN", TOKEN);
    command.args(["--port", "0"]);
    command
}

#[test]
fn a_repository_is_fetched_once_and_then_served_from_here() {
    let dir = tempfile::tempdir().unwrap();
    let (repo, home) = (dir.path().join("repo"), dir.path().join("home"));
    random_llama(&repo, &RandomLlama { shards: 2, ..RandomLlama::default() });
    let hub = Hub::of(&repo);
    let request = |model: &str| json!({"model": model, "prompt": "Once upon", "max_tokens": 6, "temperature": 0});
    let first = {
        let server = Server::start_with(user(&hub, &home).args(["--model", "o/n", "--log-level", "trace"]));
        assert_eq!(server.get("/v1/models").ok()["data"][0]["id"], "o/n");
        assert!(!server.output().contains(TOKEN), "{}", server.output());
        let text = server.completions(&request("o/n")).send().ok()["choices"][0]["text"].clone();
        assert_eq!(server.completions(&request("n")).send().ok()["choices"][0]["text"], text, "by its last name");
        text
    };
    let asked = hub.asked();
    let fetched = |name: &str| asked.iter().filter(|(path, _)| path.ends_with(name)).count();
    for name in
        ["config.json", "tokenizer.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    {
        assert_eq!(fetched(&format!("/{name}")), 1, "{name}: {asked:?}");
    }
    assert!(asked.iter().all(|(_, key)| key == &format!("Bearer {TOKEN}")), "{asked:?}");

    // From the cache: allowed to ask or not, nobody is asked. And it is the same model as the folder itself.
    for more in [&["--model", "o/n"][..], &["--model", "o/n", "--offline"], &["--model", "https://huggingface.co/o/n"]]
    {
        let server = Server::start_with(user(&hub, &home).args(more));
        assert_eq!(server.completions(&request("o/n")).send().ok()["choices"][0]["text"], first);
    }
    assert_eq!(hub.asked().len(), asked.len());
    let server = Server::start(&["--model", repo.to_str().unwrap()]);
    assert_eq!(server.completions(&request("repo")).send().ok()["choices"][0]["text"], first);
}

#[test]
fn one_file_of_a_repository() {
    let dir = tempfile::tempdir().unwrap();
    let (repo, home) = (dir.path().join("repo"), dir.path().join("home"));
    for seed in [1, 2] {
        random_llama_gguf(&repo.join(format!("m{seed}.gguf")), &RandomLlama { seed, ..RandomLlama::default() }, &[]);
    }
    let hub = Hub::of(&repo);
    let server = Server::start_with(user(&hub, &home).args(["--model", "o/n/m2.gguf"]));
    let id = server.get("/v1/models").ok()["data"][0]["id"].clone();
    server.completions(&json!({"model": id, "prompt": "a", "max_tokens": 2})).send().ok();
    assert!(hub.asked().iter().all(|(path, _)| !path.ends_with("m1.gguf")), "{:?}", hub.asked());
    let other_home = dir.path().join("other");
    let said = failed(user(&hub, &other_home).args(["--model", "o/n"]));
    assert!(said.contains("m1.gguf") && said.contains("m2.gguf"), "{said}");
}

#[test]
fn a_repository_that_cannot_be_had_is_told_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let (repo, home) = (dir.path().join("repo"), dir.path().join("home"));
    random_llama(&repo, &RandomLlama::default());
    let hub = Hub::of(&repo);
    let said = failed(user(&hub, &home).args(["--model", "o/unknown"]));
    assert!(said.contains("o/unknown") && said.contains("not on the hub; check the spelling"), "{said}");
    let said = failed(user(&hub, &home).args(["--model", "o/n", "--offline"]));
    assert!(said.contains("o/n") && said.contains("--offline"), "{said}");
    assert!(hub.asked().iter().all(|(path, _)| path.contains("unknown")), "{:?}", hub.asked());
    let said = failed(user(&hub, &home).env("HF_ENDPOINT", "http://127.0.0.1:9").args(["--model", "o/n"]));
    assert!(said.contains("http://127.0.0.1:9"), "{said}");
}

/// What the server says when it does not start.
fn failed(command: &mut Command) -> String {
    let said = failure(command);
    assert!(!said.contains("panicked") && !said.contains(TOKEN), "{said}");
    said
}

/// A signal while models are being fetched ends the process: nobody waits for an answer yet.
#[cfg(unix)]
#[test]
fn a_signal_during_the_start_ends_it() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let home = tempfile::tempdir().unwrap();
    for name in ["TERM", "INT"] {
        let mut command = command();
        command.args(["--model", "o/n", "--port", "0"]).env("HF_ENDPOINT", &url).env("HF_HOME", home.path());
        let mut child = command.env("HOME", home.path()).spawn().unwrap();
        // the hub has been asked, so the start is under way
        let (_asked, _) = silent.accept().unwrap();
        let kill = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let status = within(Duration::from_secs(10), || child.try_wait().unwrap());
        assert!(status.success(), "{name}: {status}");
    }
}
