//! Routes, lists and refusals of the API, as a client sees them.

use omlx_fixtures::tiny;
use serde_json::{Value, json};

use crate::client::{get, post, post_text};
use crate::server::Server;

fn llama() -> Server {
    Server::start(&["--model", tiny("llama").to_str().unwrap()])
}

#[test]
fn health_and_models() {
    let server = llama();
    let health = server.get("/health").ok();
    assert_eq!(health["status"], "ok");
    assert_eq!(server.busy(), (0, 0));
    let models = server.get("/v1/models").ok();
    assert_eq!(models["object"], "list");
    let ids: Vec<&Value> = models["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, ["llama"]);
    assert_eq!(models["data"][0]["object"], "model");
    assert_eq!(server.get("/nowhere").status, 404);
    assert_eq!(get(server.port, "/v1/chat/completions").send().status, 405);
}

#[test]
fn an_alias_replaces_the_name() {
    let server = Server::start(&["--model", tiny("llama").to_str().unwrap(), "--name", "my/model"]);
    assert_eq!(server.get("/v1/models").ok()["data"][0]["id"], "my/model");
    let request = json!({"model": "my/model", "prompt": "a", "max_tokens": 2});
    assert_eq!(server.completions(&request).send().ok()["model"], "my/model");
}

#[test]
fn a_folder_of_models_loads_each_once_though_many_ask() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        omlx_fixtures::random_llama(&dir.path().join(name), &omlx_fixtures::RandomLlama::default());
    }
    let server = Server::of(dir.path(), &["--log-level", "info"]);
    let request = json!({"model": "a", "prompt": "x", "max_tokens": 4, "temperature": 0});
    let texts: Vec<Value> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| server.completions(&request).send().ok()["choices"][0]["text"].clone()))
            .collect();
        asking.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(texts.iter().all(|t| *t == texts[0]), "{texts:?}");
    assert_eq!(server.output().matches("loaded model").count(), 1, "{}", server.output());
}

#[test]
fn golden_ids_come_through_the_whole_server() {
    for name in ["llama", "qwen2", "gemma3_sw8"] {
        let golden = omlx_fixtures::golden(name);
        let server = Server::start(&["--model", tiny(name).to_str().unwrap(), "--block", "4", "--step-tokens", "7"]);
        let steps = golden.greedy_margins.iter().take_while(|m| **m > 1e-3).count().min(32);
        let ends = [257u32];
        let steps = golden.greedy_ids.iter().take(steps).take_while(|id| !ends.contains(id)).count();
        assert!(steps > 16, "{name}: only {steps} steps to compare");
        let request =
            json!({"model": name, "prompt": golden.prompt_ids, "max_tokens": steps, "temperature": 0, "logprobs": 0});
        let answer = server.completions(&request).send().ok();
        let expected: Vec<u8> = golden.greedy_ids[..steps].iter().filter(|id| **id < 256).map(|id| *id as u8).collect();
        assert_eq!(answer["choices"][0]["text"], String::from_utf8_lossy(&expected).into_owned(), "{name}");
        assert_eq!(answer["usage"]["completion_tokens"], steps);
    }
}

#[test]
fn what_is_refused_is_named() {
    let server = llama();
    let messages = json!([{"role": "user", "content": "x"}]);
    let unknown = server.chat(&json!({"model": "gpt-9", "messages": messages})).send().error(404);
    assert_eq!(
        (&unknown["code"], unknown["message"].as_str().unwrap().contains("llama")),
        (&json!("model_not_found"), true)
    );

    let check = |body: Value, part: &str| {
        let error = server.chat(&body).send().error(400);
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().contains(part), "{body}: {error}");
    };
    let with = |key: &str, value: Value| {
        let mut body = json!({"model": "llama", "messages": messages});
        body[key] = value;
        body
    };
    check(json!({"model": "llama"}), "messages");
    check(with("messages", json!([])), "messages");
    check(with("messages", json!("hi")), "messages");
    check(with("temperature", json!(-1)), "temperature");
    check(with("temperature", json!("hot")), "temperature");
    check(with("top_p", json!(1.5)), "top_p");
    check(with("max_tokens", json!(-1)), "max_tokens");
    check(with("stop", json!(3)), "stop");
    check(with("logit_bias", json!({"x": 1})), "logit_bias");
    assert_eq!(
        post_text(server.port, "/v1/chat/completions", "{not json").send().error(400)["type"],
        "invalid_request_error"
    );
    let ok = server.chat(&with("max_completion_tokens", json!(3))).send().ok();
    assert_eq!((&ok["choices"][0]["finish_reason"], &ok["usage"]["completion_tokens"]), (&json!("length"), &json!(3)));
}

#[test]
fn sec_1_only_the_key_opens() {
    let server =
        Server::start(&["--model", tiny("llama").to_str().unwrap(), "--api-key", "k-test-1", "--log-level", "debug"]);
    let list = || get(server.port, "/v1/models");
    for (name, value) in [
        ("Authorization", "Bearer k-test"),
        ("Authorization", "Bearer k-test-12"),
        ("Authorization", "Basic k-test-1"),
        ("Authorization", "k-test-1"),
        ("x-api-key", "K-TEST-1"),
        ("x-api-key", "schlüssel"),
        ("x-unrelated", "k-test-1"),
    ] {
        assert_eq!(list().header(name, value).send().status, 401, "{name}: {value}");
    }
    assert_eq!(get(server.port, "/v1/models?key=k-test-1").send().status, 401);
    let body = json!({"model": "llama", "prompt": "a", "max_tokens": 1});
    assert_eq!(post(server.port, "/v1/completions", &body).send().error(401)["code"], "invalid_api_key");
    assert_eq!(list().header("Authorization", "Bearer k-test-1").send().status, 200);
    assert_eq!(list().header("authorization", "bearer k-test-1").send().status, 200);
    assert_eq!(list().header("x-api-key", "k-test-1").send().status, 200);
    assert_eq!(server.get("/health").status, 200);
    let output = server.output();
    assert!(!output.contains("k-test"), "{output}");
}
