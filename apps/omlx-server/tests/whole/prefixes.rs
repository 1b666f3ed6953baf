//! Parts of prompts that are kept in memory and on disk: found again after others came and after a restart, never wrong, within
//! their bounds, and shown to the owner.
//!
//! Answers are compared by their log-probabilities, to the last digit that is printed.
//!
//! Seen to fail: names that do not cover the kernels, or the type of keys and values; budgets of memory and of disk that are not kept;
//! cached tokens that are not those that were found.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use omlx_fixtures::{RandomLlama, random_llama};
use serde_json::{Value, json};

use crate::server::{Server, command, failure, within};

const PROMPT: usize = 400;
const BLOCK: u64 = 16;

/// Two models, one of them with windows shorter than the prompts, and a folder for prefixes that is not there yet.
pub(crate) struct House {
    pub(crate) dir: tempfile::TempDir,
}

impl House {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        random_llama(&dir.path().join("models/full"), &RandomLlama::default());
        let windows = vec![Some(64), None, Some(64)];
        random_llama(&dir.path().join("models/window"), &RandomLlama { windows, seed: 2, ..RandomLlama::default() });
        Self { dir }
    }

    pub(crate) fn kept(&self) -> PathBuf {
        self.dir.path().join("a/new/folder")
    }

    pub(crate) fn serve(&self, args: &[&str]) -> Server {
        let block: &[&str] = if args.contains(&"--block") { &[] } else { &["--block", "16"] };
        Server::of(&self.dir.path().join("models"), &[block, args].concat())
    }

    pub(crate) fn serve_kept(&self, args: &[&str]) -> Server {
        let kept = self.kept();
        self.serve(&[&["--cache-dir", kept.to_str().unwrap()], args].concat())
    }

    /// `omlx-server cache TASK` on the folder.
    pub(crate) fn cache(&self, task: &str) -> Output {
        command().args(["cache", task, "--cache-dir"]).arg(self.kept()).output().unwrap()
    }
}

/// A prompt of [`PROMPT`] tokens, one a byte, which shares nothing with those of other seeds.
fn prompt(seed: usize) -> String {
    format!("{seed:04}")
        .chars()
        .chain((4..PROMPT).map(|i| char::from(b'a' + ((i * i + 7 * seed) % 26) as u8)))
        .collect()
}

pub(crate) fn request(model: &str, seed: usize) -> Value {
    json!({"model": model, "prompt": prompt(seed), "max_tokens": 6, "temperature": 0, "logprobs": 5})
}

/// What was said, with its scores, and how many tokens of the prompt were not computed.
#[track_caller]
pub(crate) fn ask(server: &Server, request: &Value) -> (Value, u64) {
    let answer = server.completions(request).send().ok();
    let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    (answer["choices"].clone(), cached)
}

pub(crate) fn prefixes(server: &Server) -> Value {
    server.get("/api/status").ok()["prefixes"].clone()
}

/// Ends a server as its owner would.
pub(crate) fn stop(mut server: Server) {
    server.signal("TERM");
    assert!(server.ended(Duration::from_secs(30)).success(), "{}", server.output());
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The longest part of a prompt that can be found: whole blocks, and its last token is computed in any case.
pub(crate) const MOST: u64 = (PROMPT as u64 - 1) / BLOCK * BLOCK;

#[test]
fn a_prompt_is_found_after_a_restart() {
    let house = House::new();
    let alone = house.serve(&["--no-cache"]);
    let cold = ["full", "window"].map(|model| ask(&alone, &request(model, 1)));
    drop(alone);
    let first = house.serve_kept(&[]);
    for (model, cold) in ["full", "window"].into_iter().zip(&cold) {
        assert_eq!(&ask(&first, &request(model, 1)), cold);
    }
    stop(first);
    let second = house.serve_kept(&[]);
    for (model, (said, _)) in ["full", "window"].into_iter().zip(&cold) {
        let mut streamed = request(model, 1);
        streamed["stream"] = true.into();
        streamed["stream_options"] = json!({"include_usage": true});
        // From disk the first time, whichever way it is asked; from the cache the second.
        let events = second.completions(&streamed).send().events();
        let usage = &events.last().unwrap()["usage"];
        assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], MOST, "{model}: {}", prefixes(&second));
        assert_eq!(ask(&second, &request(model, 1)), (said.clone(), MOST), "{model}");
    }
    let seen = prefixes(&second);
    assert!(seen["restored_blocks"].as_u64().unwrap() >= 2 * MOST / BLOCK, "{seen}");
    let metrics = second.get("/metrics").body;
    let line = format!("omlx:prefix_restored_blocks_total {}", seen["restored_blocks"]);
    assert!(metrics.contains(&line), "{metrics}");
    // A longer prompt with the same beginning, and a shorter one, after the restart.
    let plain = house.serve(&["--no-cache"]);
    for (change, cached) in [("x", PROMPT as u64), ("", MOST - 10 * BLOCK)] {
        let mut other = request("full", 1);
        let said = other["prompt"].as_str().unwrap().to_owned();
        other["prompt"] = if change.is_empty() { said[..PROMPT - 160].into() } else { (said + change).into() };
        assert_eq!(ask(&second, &other), (ask(&plain, &other).0, cached));
    }
}

/// What was computed another way is another thing, even where the model has the same name; whose owner is told once why nothing is
/// found, and finds everything again when the settings are back.
#[test]
fn ssd_3_what_is_kept_belongs_to_the_settings() {
    let house = House::new();
    let unusable = |server: &Server| server.output().matches("prefix cache: none of the ").count();
    let first = house.serve_kept(&[]);
    ask(&first, &request("full", 1));
    stop(first);
    for args in [["--kv-dtype", "f32"], ["--kv-bits", "8"], ["--kernels", "reference"], ["--block", "32"]] {
        let other = house.serve_kept(&args);
        assert_eq!(ask(&other, &request("full", 1)).1, 0, "{args:?}");
        assert!(ask(&other, &request("full", 1)).1 >= MOST / 32 * 32, "{args:?}");
        assert_eq!(unusable(&other), 1, "{args:?}: {}", other.output());
        stop(other);
        let again = house.serve_kept(&[]);
        assert_eq!(ask(&again, &request("full", 1)).1, MOST, "still there after {args:?}");
        assert_eq!(unusable(&again), 0, "{}", again.output());
        stop(again);
    }
}

/// Other weights under the same name, and another value in their configuration, are other models; the same files elsewhere are not.
#[test]
fn pfx_3_what_is_kept_belongs_to_the_weights() {
    let house = House::new();
    let models = house.dir.path().join("models");
    let first = house.serve_kept(&[]);
    ask(&first, &request("full", 1));
    stop(first);
    let config = models.join("full/config.json");
    let before = std::fs::read_to_string(&config).unwrap();
    let mut changed: Value = serde_json::from_str(&before).unwrap();
    changed["rope_theta"] = json!(20_000.0);
    std::fs::write(&config, changed.to_string()).unwrap();
    let check = |what: &str, cached: u64| {
        let (kept, cold) = (house.serve_kept(&[]), house.serve(&["--no-cache"]));
        let (said, found) = ask(&kept, &request("full", 1));
        assert_eq!((said, found), (ask(&cold, &request("full", 1)).0, cached), "{what}");
        stop(kept);
    };
    check("another rotation", 0);
    std::fs::write(&config, before).unwrap();
    check("as it was", MOST);
    std::fs::create_dir(models.join("alias")).unwrap();
    for file in std::fs::read_dir(models.join("full")).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), models.join("alias").join(file.file_name())).unwrap();
    }
    let alias = house.serve_kept(&[]);
    assert_eq!(ask(&alias, &request("alias", 1)).1, MOST, "the same model by another name");
    stop(alias);
    random_llama(&models.join("full"), &RandomLlama { seed: 9, ..RandomLlama::default() });
    check("other weights", 0);
}

/// Repeats, shorter prompts and longer ones, each three times: in memory, and after a restart.
#[test]
fn pfx_1_repeats_and_shorter_prompts() {
    let house = House::new();
    for model in ["full", "window"] {
        let alone = house.serve(&["--no-cache"]);
        let lengths = [64, 64, 63, 65, 48, 47, 16, 15, 1, 164];
        let of = |len: usize| {
            let mut request = request(model, 1);
            request["prompt"] = request["prompt"].as_str().unwrap()[..len].into();
            request
        };
        let cold: Vec<_> = lengths.iter().map(|&len| ask(&alone, &of(len)).0).collect();
        for place in ["memory", "disk", "disk again"] {
            let server = if place == "memory" { house.serve(&["--cache-ram", "8MiB"]) } else { house.serve_kept(&[]) };
            for round in 0..3 {
                for (&len, cold) in lengths.iter().zip(&cold) {
                    let (said, cached) = ask(&server, &of(len));
                    assert_eq!(&said, cold, "{model}, {len} tokens, round {round}, {place}");
                    assert!(cached < len as u64, "{cached} of {len}");
                    let known = round > 0 || place == "disk again";
                    assert!(!known || cached >= (len as u64 - 1) / BLOCK * BLOCK, "{cached} of {len}, {place}");
                }
            }
            stop(server);
        }
    }
}

/// What a model's own cache has no room for is found in memory, while that lasts.
#[test]
fn memory_keeps_what_a_small_cache_gives_up() {
    let house = House::new();
    // About one prompt and its answer.
    let small = ["--max-concurrent", "1", "--context", "480"];
    for (args, cached) in [(vec!["--cache-ram", "64MiB"], MOST), (vec!["--no-cache"], 0)] {
        let server = house.serve(&[&small[..], &args].concat());
        let (said, _) = ask(&server, &request("full", 0));
        (1..6).for_each(|seed| drop(ask(&server, &request("full", seed))));
        assert_eq!(ask(&server, &request("full", 0)), (said, cached), "{args:?}: {}", prefixes(&server));
        let seen = prefixes(&server);
        match cached {
            0 => assert_eq!(seen, Value::Null),
            _ => assert!(seen["ram"]["hits"].as_u64().unwrap() >= MOST / BLOCK, "{seen}"),
        }
    }
    let budget = 1 << 20;
    let server = house.serve(&[&small[..], &["--cache-ram", "1MiB"]].concat());
    for seed in 0..20 {
        ask(&server, &request("full", seed));
        let ram = &prefixes(&server)["ram"];
        assert!(ram["bytes"].as_u64().unwrap() <= budget && ram["budget_bytes"] == budget, "{ram}");
    }
    assert!(prefixes(&server)["ram"]["evicted"].as_u64().unwrap() > 0);
}

#[test]
fn a_folder_is_private_bounded_and_one_servers_own() {
    let house = House::new();
    let budget = 4 << 20;
    let server = house.serve_kept(&["--cache-disk", "4MiB", "--cache-ram", "off"]);
    let kept = house.kept();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&kept), 0o700);
    for seed in 0..30 {
        ask(&server, &request("full", seed));
        // A file that is given up meanwhile takes nothing.
        let bytes: u64 =
            files(&kept).iter().filter_map(|file| std::fs::metadata(file).ok()).map(|meta| meta.len()).sum();
        assert!(bytes <= budget, "{bytes} bytes on disk");
    }
    let disk = within(Duration::from_secs(10), || {
        let seen = prefixes(&server);
        (seen["disk"]["evicted"].as_u64()? > 0).then(|| seen["disk"].clone())
    });
    assert_eq!(disk["budget_bytes"], budget);
    assert!(files(&kept).iter().all(|file| mode(file) == 0o600));

    let said =
        failure(command().args(["--port", "0", "--model-dir"]).arg(house.dir.path()).arg("--cache-dir").arg(&kept));
    assert!(said.contains("--cache-dir") && said.contains("is in use"), "{said}");
    for task in ["ls", "verify", "clear"] {
        let refused = house.cache(task);
        assert!(!refused.status.success() && text(&refused).contains("is in use"), "{}", text(&refused));
    }
    assert_eq!(ask(&server, &request("full", 29)).1, MOST, "undisturbed");
}

#[test]
fn a_folder_is_listed_verified_and_cleared() {
    let house = House::new();
    let missing = house.cache("ls");
    assert!(!missing.status.success() && text(&missing).contains("there is no such folder"), "{}", text(&missing));
    let server = house.serve_kept(&[]);
    for model in ["full", "window"] {
        ask(&server, &request(model, 3));
    }
    stop(server);
    let listed = text(&house.cache("ls"));
    assert_eq!(listed.lines().count(), 4, "a head, two models, a sum: {listed}");
    let verified = house.cache("verify");
    assert!(verified.status.success() && text(&verified).contains("are good"), "{}", text(&verified));

    // One byte in the first model's chain: that is cut there, and nothing else is lost.
    let largest = files(&house.kept()).into_iter().max_by_key(|file| std::fs::metadata(file).unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let place = bytes.len() / 8;
    bytes[place] ^= 1;
    std::fs::write(&largest, bytes).unwrap();
    let plain = house.serve(&["--no-cache"]);
    let server = house.serve_kept(&[]);
    let cached = ["full", "window"].map(|model| {
        let ((said, cached), cold) = (ask(&server, &request(model, 3)), ask(&plain, &request(model, 3)).0);
        assert_eq!(said, cold, "{model}");
        cached
    });
    assert!(cached[0] > 0 && cached[0] < MOST && cached[1] == MOST, "{cached:?}");
    stop(server);
    let mut bytes = std::fs::read(&largest).unwrap();
    bytes[place] ^= 1;
    std::fs::write(&largest, bytes).unwrap();

    let cleared = house.cache("clear");
    assert!(cleared.status.success() && text(&cleared).contains("were removed"), "{}", text(&cleared));
    assert!(text(&house.cache("ls")).contains("0 stored blocks"), "{}", text(&house.cache("ls")));
}

#[test]
fn flags_that_cannot_be_meant() {
    let house = House::new();
    let models = house.dir.path().to_str().unwrap();
    let file = house.dir.path().join("models/full/config.json");
    let file = file.to_str().unwrap();
    let kept = house.kept();
    for (args, says) in [
        (vec!["--no-cache", "--cache-dir", "x"], "--no-cache"),
        (vec!["--cache-dir", file], "--cache-dir"),
        (vec!["--cache-dir", kept.to_str().unwrap(), "--cache-disk", "1KiB"], "--cache-disk"),
        (vec!["--cache-disk", "1GiB"], "--cache-dir"),
    ] {
        let said = failure(command().args(["--port", "0", "--model-dir", models]).args(&args));
        assert!(said.contains(says) && !said.contains("panicked"), "{args:?}: {said}");
    }
    let said = Command::new(env!("CARGO_BIN_EXE_omlx-server")).args(["cache", "--help"]).output().unwrap();
    assert!(["ls", "verify", "clear"].iter().all(|task| text(&said).contains(task)), "{}", text(&said));
}

/// What the probe says, and whether a request then finds just that.
#[track_caller]
fn probed(server: &Server, path: &str, request: &Value) -> (Vec<String>, u64) {
    let probe = || crate::client::post(server.port, "/api/cache/probe", request).send().ok();
    let said = probe();
    assert_eq!(probe(), said, "asking changes nothing");
    let usage = crate::client::post(server.port, path, request).send().ok()["usage"].clone();
    let cached = &usage["prompt_tokens_details"]["cached_tokens"];
    assert_eq!((&said["prompt_tokens"], &said["cached_tokens"]), (&usage["prompt_tokens"], cached), "{said}");
    let blocks = said["blocks"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
    (blocks, cached.as_u64().unwrap())
}

/// PFX-5. A template's arguments are part of what is asked.
#[test]
fn the_probe_says_what_a_request_finds() {
    let house = House::new();
    let template = "{% if enable_thinking %}think {% endif %}{% for m in messages %}{{ m['content'] }}{% endfor %}";
    std::fs::write(house.dir.path().join("models/window/chat_template.jinja"), template).unwrap();
    let chat = |thinks: Value| {
        json!({"model": "window", "messages": [{"role": "user", "content": prompt(7)}], "max_tokens": 3,
               "chat_template_kwargs": {"enable_thinking": thinks}})
    };
    let all = PROMPT.div_ceil(BLOCK as usize);
    let of = |word: &str, count: usize| vec![word.to_owned(); count];
    let server = house.serve_kept(&["--cache-ram", "off"]);
    for (path, request) in [("/v1/completions", request("full", 7)), ("/v1/chat/completions", chat(json!(false)))] {
        assert_eq!(probed(&server, path, &request), (of("cold", all), 0));
        let (blocks, cached) = probed(&server, path, &request);
        assert_eq!((&blocks[..all - 1], cached), (&of("hot", all - 1)[..], MOST));
    }
    // Other arguments, another beginning; then the first ones again.
    let (blocks, cached) = probed(&server, "/v1/chat/completions", &chat(json!(true)));
    assert_eq!((&blocks[0][..], cached), ("cold", 0));
    assert_eq!(probed(&server, "/v1/chat/completions", &chat(json!(true))).1, (PROMPT as u64 + 5) / BLOCK * BLOCK);
    assert_eq!(probed(&server, "/v1/chat/completions", &chat(json!(false))).1, MOST);
    stop(server);
    let server = house.serve_kept(&["--cache-ram", "off"]);
    for (path, request) in [("/v1/completions", request("full", 7)), ("/v1/chat/completions", chat(json!(false)))] {
        let (blocks, cached) = probed(&server, path, &request);
        // Of the model with windows the last of a window come from disk, and all of the layer that sees everything.
        assert_eq!((&blocks[..all - 1], cached), (&of("disk", all - 1)[..], MOST));
    }
    let probe = |body: &Value| crate::client::post(server.port, "/api/cache/probe", body).send();
    let told = |body: Value, status| probe(&body).error(status)["message"].as_str().unwrap().to_owned();
    assert!(told(json!({"model": "full"}), 400).contains("`messages` or `prompt`"));
    assert!(told(json!({"model": "full", "prompt": ["a", "b"]}), 400).contains("prompt"));
    assert!(told(json!({"model": "full", "prompt": ""}), 400).contains("empty"));
    assert!(told(json!({"model": "full", "prompt": [999_999]}), 400).contains("999999"));
    assert!(told(json!({"model": "full", "prompt": "x".repeat(9000)}), 400).contains("context"));
    assert!(told(json!({"model": "nobody", "prompt": "x"}), 404).contains("nobody"));
}
