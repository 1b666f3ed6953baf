//! Token counts (API-5) and the context's end (API-8), the same streamed and not.

use std::path::Path;

use omlx_fixtures::{RandomLlama, random_llama};
use serde_json::json;

use crate::server::Server;

fn serve(dir: &Path, args: &[&str]) -> Server {
    random_llama(&dir.join("fx-r"), &RandomLlama::default());
    Server::of(dir, args)
}

/// A prompt of `tokens` tokens: one per byte.
fn prompt(tokens: usize, seed: u8) -> String {
    (0..tokens).map(|i| char::from(b'a' + (i * i + usize::from(seed)) as u8 % 26)).collect()
}

#[test]
fn api_5_usage_is_the_same_in_both_modes() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--block", "16"]);
    let request = |seed| json!({"model": "fx-r", "prompt": prompt(64, seed), "max_tokens": 5, "temperature": 0});
    let cold = server.completions(&request(0)).send().ok()["usage"].clone();
    let expected = |cached: u64| {
        json!({"prompt_tokens": 64, "completion_tokens": 5, "total_tokens": 69,
               "prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens_details": {"reasoning_tokens": 0}})
    };
    assert_eq!(cold, expected(0));
    // Three whole blocks: the last prompt token is always computed.
    assert_eq!(server.completions(&request(0)).send().ok()["usage"], expected(48));

    let mut streamed = request(0);
    streamed["stream"] = true.into();
    let events = server.completions(&streamed).send().events();
    assert!(events.iter().all(|e| e["usage"].is_null() && e["choices"][0].is_object()), "{events:?}");

    streamed["stream_options"] = json!({"include_usage": true});
    let events = server.completions(&streamed).send().events();
    let (last, before) = events.split_last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &expected(48)));
    assert!(before.iter().all(|e| e["usage"].is_null()), "{before:?}");

    let chat = json!({"model": "fx-r", "messages": [{"role": "user", "content": prompt(40, 3)}], "max_tokens": 3});
    let usage = server.chat(&chat).send().ok()["usage"].clone();
    assert_eq!(usage["total_tokens"], usage["prompt_tokens"].as_u64().unwrap() + 3);
}

#[test]
fn api_8_a_prompt_beyond_the_context_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--context", "64"]);
    for stream in [false, true] {
        let text = prompt(80, 1);
        let long = json!({"model": "fx-r", "prompt": text, "max_tokens": 4, "stream": stream});
        let chat = json!({"model": "fx-r", "messages": [{"role": "user", "content": text}], "stream": stream});
        for answer in [server.completions(&long).send(), server.chat(&chat).send()] {
            let error = answer.error(400);
            assert_eq!(
                (&error["type"], &error["code"]),
                (&json!("invalid_request_error"), &json!("context_length_exceeded"))
            );
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("64") && (message.contains("80") || message.contains("tokens")), "{message}");
            assert!(answer.header("content-type").starts_with("application/json"));
        }
    }
    // The other half of the case: served up to the limit.
    let tight = json!({"model": "fx-r", "prompt": prompt(60, 2), "max_tokens": 10, "temperature": 0});
    let answer = server.completions(&tight).send().ok();
    assert_eq!(
        (&answer["choices"][0]["finish_reason"], &answer["usage"]["completion_tokens"]),
        (&json!("length"), &json!(4))
    );
}

#[test]
fn api_8_too_little_memory_is_not_a_context_error() {
    let dir = tempfile::tempdir().unwrap();
    // 2 layers, 4 heads of 16, keys and values in f32: 1 KiB a token, so 64 KiB hold 64 tokens of the 512.
    let server =
        serve(dir.path(), &["--kv-memory", "64KiB", "--kv-dtype", "f32", "--block", "16", "--max-concurrent", "1"]);
    for stream in [false, true] {
        let text = prompt(200, 1);
        let long = json!({"model": "fx-r", "prompt": text, "max_tokens": 4, "stream": stream});
        let chat = json!({"model": "fx-r", "messages": [{"role": "user", "content": text}], "stream": stream});
        for answer in [server.completions(&long).send(), server.chat(&chat).send()] {
            let error = answer.error(507);
            assert_eq!(error["code"], "no_memory");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("64") && message.contains("--kv-memory"), "{message}");
            assert!(!message.contains("context"), "{message}");
        }
    }
    // Beyond the model's own 512 as well: a shorter prompt is what helps first. The longest token has 12 bytes, so that the second is
    // certain to have more than 64 tokens before it is known to have more than 512. Seen to fail, as 507.
    for (tokens, stream) in [(600, false), (800, false), (800, true), (8000, true)] {
        let text = prompt(tokens, 1);
        let longer = json!({"model": "fx-r", "prompt": text, "max_tokens": 4, "stream": stream});
        let chat = json!({"model": "fx-r", "messages": [{"role": "user", "content": text}], "stream": stream});
        for answer in [server.completions(&longer).send(), server.chat(&chat).send()] {
            assert_eq!(answer.error(400)["code"], "context_length_exceeded");
        }
    }
}
