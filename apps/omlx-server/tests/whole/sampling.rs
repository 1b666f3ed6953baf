//! MOD-6: whose sampling value wins. Request over owner over the model folder over what is built in.

use std::path::Path;

use omlx_fixtures::{RandomLlama, random_llama};
use serde_json::{Value, json};

use crate::server::Server;
use crate::text::edit;

fn model(dir: &Path, name: &str, generation: &Value) {
    random_llama(&dir.join(name), &RandomLlama::default());
    edit(&dir.join(name).join("generation_config.json"), |g| {
        g.as_object_mut().unwrap().extend(generation.as_object().unwrap().clone());
    });
}

fn ask(server: &Server, model: &str, more: &Value) -> (String, u64) {
    let mut request = json!({"model": model, "prompt": "Once upon a time", "max_tokens": 24});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = server.completions(&request).send().ok();
    (answer["choices"][0]["text"].as_str().unwrap().to_owned(), answer["usage"]["completion_tokens"].as_u64().unwrap())
}

#[test]
fn mod_6_request_over_model_over_built_in() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), "lively", &json!({"temperature": 1.0, "top_k": 5}));
    model(dir.path(), "calm", &json!({"temperature": 1.0, "top_k": 5, "do_sample": false}));
    model(dir.path(), "single", &json!({"temperature": 1.0, "top_k": 1}));
    let server = Server::of(dir.path(), &[]);
    let ask = |model: &str, more: Value| ask(&server, model, &more);

    let greedy = ask("lively", json!({"temperature": 0})).0;
    assert_eq!(ask("lively", json!({"temperature": 0})).0, greedy, "an explicit 0 counts as given");
    assert_ne!(ask("lively", json!({})).0, ask("lively", json!({})).0, "the author's temperature counts");
    assert_eq!(ask("calm", json!({})).0, greedy, "do_sample: false means greedy");
    assert_eq!(ask("single", json!({})).0, greedy, "the author's top_k counts");
    assert_ne!(
        ask("single", json!({"top_k": 50})).0,
        ask("single", json!({"top_k": 50})).0,
        "the request's top_k wins"
    );
    assert_ne!(ask("calm", json!({"temperature": 1})).0, ask("calm", json!({"temperature": 1})).0, "the request wins");
    assert_eq!(ask("lively", json!({"seed": 7})), ask("lively", json!({"seed": 7})), "a seed repeats");
    assert_ne!(ask("lively", json!({"seed": 7})), ask("lively", json!({"seed": 8})), "another seed differs");
    assert_eq!(ask("lively", json!({"max_tokens": 4})).1, 4);

    let nothing = json!({"temperature": null, "top_p": null, "top_k": null, "min_p": null, "seed": null, "stop": null,
        "presence_penalty": null, "frequency_penalty": null, "repetition_penalty": null, "logit_bias": null,
        "n": null, "stream": null, "stream_options": null, "user": null, "logprobs": null});
    assert_eq!(ask("calm", nothing).0, greedy, "null is not given");
}

#[test]
fn mod_6_owner_between_request_and_model() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), "lively", &json!({"temperature": 1.0, "top_k": 5}));
    model(dir.path(), "calm", &json!({"do_sample": false}));
    let server = Server::of(dir.path(), &["--temperature", "0"]);
    let greedy = ask(&server, "lively", &json!({"temperature": 0})).0;
    assert_eq!(ask(&server, "lively", &json!({})).0, greedy, "the owner's temperature beats the author's");
    let free = json!({"temperature": 1});
    assert_ne!(ask(&server, "lively", &free).0, ask(&server, "lively", &free).0, "the request's beats the owner's");
    drop(server);

    let server = Server::of(dir.path(), &["--temp", "1", "--top-k", "1"]);
    assert_eq!(ask(&server, "lively", &json!({})).0, greedy, "the owner's top_k beats the author's");
    let free = json!({"top_k": 0});
    assert_ne!(ask(&server, "calm", &free).0, ask(&server, "calm", &free).0, "the owner's temperature beats do_sample");
}
