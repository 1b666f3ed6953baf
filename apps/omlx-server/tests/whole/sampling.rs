//! MOD-6: whose sampling value wins. Request over model setting over generation_config over flags over what is built in.

use std::path::Path;

use omlx_fixtures::{RandomLlama, random_llama};
use serde_json::{Value, json};

use crate::server::{Server, fails};
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

/// The case's own set-up: `generation_config` temperature 1.0 and top_k 5, flag max_tokens 8, model setting max_tokens 16.
#[test]
fn mod_6_model_setting_over_author_over_flags() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["lively", "other"] {
        model(dir.path(), name, &json!({"temperature": 1.0, "top_k": 5}));
    }
    model(dir.path(), "silent", &json!({}));
    let flags = ["--max-tokens", "8", "--temperature", "0", "--set", "lively:max_tokens=16", "--set", "other:top_k=1"];
    let server = Server::of(dir.path(), &flags);
    let ask = |model: &str, more: Value| {
        let mut request = json!({"model": model, "prompt": "Once upon a time", "ignore_eos": true});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = server.completions(&request).send().ok();
        let tokens = answer["usage"]["completion_tokens"].as_u64().unwrap();
        (answer["choices"][0]["text"].as_str().unwrap().to_owned(), tokens)
    };
    let (greedy, tokens) = ask("lively", json!({"temperature": 0}));
    assert_eq!(tokens, 16, "the model's setting beats the flag's");
    assert_eq!(ask("lively", json!({"max_tokens": 4})).1, 4, "the request beats both");
    assert_eq!(ask("other", json!({})).1, 8, "the flag holds where nobody else says");
    assert_eq!(ask("silent", json!({})), ask("silent", json!({"max_tokens": null})), "the flag's temperature is 0");
    assert_ne!(ask("lively", json!({})).0, ask("lively", json!({})).0, "the author's temperature beats the flag's");
    assert_eq!(ask("lively", json!({"temperature": 0})).0, greedy);
    assert_eq!(ask("other", json!({})).0, ask("other", json!({})).0, "the setting's top_k beats the author's");
    let free = json!({"top_k": 0, "temperature": 1});
    assert_ne!(ask("other", free.clone()).0, ask("other", free).0, "the request's beats the setting's");
}

#[test]
fn settings_for_a_model_that_is_not_there_are_a_mistake() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), "lively", &json!({}));
    for (set, said) in [
        ("lifely:top_k=1", "--set lifely: no model has this name; models here: lively"),
        ("lively:topk=1", "`topk` is no setting; there are temperature, top_k"),
        ("lively", "a model's name and a colon come first"),
    ] {
        let output = fails(&["--model-dir", dir.path().to_str().unwrap(), "--port", "0", "--set", set]);
        assert!(output.contains(said), "{output}");
    }
}
