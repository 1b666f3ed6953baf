//! Memory that is too small: what a client can do about it is in the status, the code and the headers.

use std::fs;

use omlx_fixtures::{RandomLlama, random_llama};
use serde_json::json;

use crate::server::Server;

const MIB: u64 = 1 << 20;

/// A server unloads nothing, so what does not fit beside a loaded model will not fit later. Seen to fail: 503 with `Retry-After`, for
/// ever.
#[test]
fn a_model_that_never_fits_beside_another_invites_nobody_to_come_again() {
    let shelf = tempfile::tempdir().unwrap();
    for name in ["small", "large"] {
        random_llama(&shelf.path().join(name), &RandomLlama::default());
    }
    // Counted with the weights and never read: the refusal comes before.
    let more = fs::File::create(shelf.path().join("large/more.safetensors")).unwrap();
    more.set_len(400 * MIB).unwrap();
    let server = Server::of(shelf.path(), &["--memory-guard", "256MiB", "--kv-memory", "4MiB"]);
    let ask = |model: &str| server.completions(&json!({"model": model, "prompt": "a", "max_tokens": 2})).send();
    let alone = ask("large");
    assert!(!alone.error(507)["message"].as_str().unwrap().contains("beside"), "{}", alone.body);
    ask("small").ok();
    for _ in 0..2 {
        let answer = ask("large");
        let error = answer.error(507);
        assert_eq!(error["code"], "no_memory");
        let message = error["message"].as_str().unwrap();
        for part in ["400", "--memory-guard", "beside the models that are loaded", "ask for one of those"] {
            assert!(message.contains(part), "no {part:?} in {message}");
        }
        assert_eq!((answer.header("retry-after"), answer.header("x-should-retry")), ("", "false"));
        ask("small").ok();
    }
}

/// API-8 under a guard: what only memory is too small for is another matter than a context that is exceeded, and who exceeds both is
/// told of the context. Streamed and not, on both routes.
#[test]
fn api_8_under_a_small_guard() {
    let shelf = tempfile::tempdir().unwrap();
    let context = 1 << 17;
    random_llama(&shelf.path().join("m"), &RandomLlama { context, ..RandomLlama::default() });
    // 1 KiB a token: less than the 128 MiB that the whole context takes.
    let few = ["--memory-guard", "100MiB", "--max-concurrent", "1", "--kv-memory", "90%", "--kv-dtype", "f32"];
    let server = Server::of(shelf.path(), &few);
    let ask = |chars: usize, stream: bool| {
        let text = "lorem ipsum ".repeat(chars.div_ceil(12));
        let plain = json!({"model": "m", "prompt": text, "max_tokens": 2, "stream": stream});
        let chat =
            json!({"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 2, "stream": stream});
        [server.completions(&plain).send(), server.chat(&chat).send()]
    };
    server.completions(&json!({"model": "m", "prompt": "a", "max_tokens": 2})).send().ok();
    let capacity = server.get("/v1/models").ok()["data"][0]["max_model_len"].as_u64().unwrap();
    assert!(capacity > 1000 && capacity < context as u64, "{capacity} tokens");
    let over_both = context + 100;
    for stream in [false, true] {
        for answer in ask(usize::try_from(capacity).unwrap() + 100, stream) {
            let error = answer.error(507);
            let message = error["message"].as_str().unwrap();
            assert_eq!(error["code"], "no_memory");
            assert!(message.contains(&capacity.to_string()) && message.contains("--memory-guard"), "{message}");
            assert!(!message.contains("context") && !message.contains("shorten"), "{message}");
            assert_eq!(answer.header("retry-after"), "", "a shorter wait changes nothing");
        }
        for answer in ask(over_both, stream) {
            let error = answer.error(400);
            assert_eq!(
                (&error["code"], &error["type"]),
                (&json!("context_length_exceeded"), &json!("invalid_request_error"))
            );
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(&context.to_string()), "{message}");
        }
    }
    server.completions(&json!({"model": "m", "prompt": "a", "max_tokens": 2})).send().ok();
}

/// The guard's limits in the words of the command line while the server runs: the next request is judged by the new ones.
#[test]
fn the_guard_is_set_while_the_server_runs() {
    const PATH: &str = "/api/memory-guard";
    let shelf = tempfile::tempdir().unwrap();
    random_llama(&shelf.path().join("m"), &RandomLlama { context: 1 << 15, ..RandomLlama::default() });
    let server = Server::of(shelf.path(), &["--memory-guard", "90%", "--kv-memory", "40MiB", "--cache-ram", "8MiB"]);
    let set = |words: &str| crate::client::post(server.port, PATH, &json!({"memory_guard": words})).send();
    let seen = || server.get(PATH).ok()["memory"].clone();
    let short = json!({"model": "m", "prompt": "a", "max_tokens": 2});

    assert_eq!((seen()["tier"].as_str(), seen()["promised_bytes"].as_u64()), (Some("custom"), Some(8 << 20)));
    let mut running =
        server.completions(&json!({"model": "m", "prompt": "b", "max_tokens": 30_000, "stream": true})).open();
    crate::client::first_event(&mut running);
    let before = seen()["most_bytes"].as_u64().unwrap();
    for (words, says) in [
        ("bold", "expected safe, balanced, aggressive, off"),
        ("120%", "above 0% and at most at 100%"),
        ("24", "found \"24\""),
        ("off", "--memory-guard off"),
    ] {
        let answer = set(words);
        let message = answer.error(400)["message"].as_str().unwrap().to_owned();
        assert!(message.contains(says), "{words}: {message}");
    }
    assert_eq!(seen()["most_bytes"].as_u64(), Some(before), "a refusal changes nothing");

    let now = set("1MiB").ok()["memory"].clone();
    assert_eq!((now["most_bytes"].as_u64(), now["pressure"].as_str()), (Some(MIB), Some("hard")), "{now}");
    let refused = server.completions(&short).send();
    assert_eq!(refused.error(503)["code"], "no_memory");
    assert_eq!(refused.header("retry-after"), "5");
    let now = set("Aggressive").ok()["memory"].clone();
    assert_eq!((now["tier"].as_str(), now["refused"].as_u64()), (Some("aggressive"), Some(1)), "{now}");
    server.completions(&short).send().ok();
    drop(running);
}

/// A server that was started without a guard says so.
#[test]
fn a_guard_that_is_off_cannot_be_set() {
    let shelf = tempfile::tempdir().unwrap();
    random_llama(&shelf.path().join("m"), &RandomLlama::default());
    let server = Server::of(shelf.path(), &["--memory-guard", "off"]);
    assert_eq!(server.get("/api/memory-guard").ok()["memory"], json!(null));
    let answer = crate::client::post(server.port, "/api/memory-guard", &json!({"memory_guard": "safe"})).send();
    assert_eq!(answer.error(409)["code"], "memory_guard_off");
}
