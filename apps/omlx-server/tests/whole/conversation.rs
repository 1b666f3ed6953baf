//! A coding agent's conversation of twenty turns with real models: what an earlier turn has computed is not computed again, also
//! where the server was started anew between two turns, and an answer on the way is that of a server which computes all of it.
//!
//! Of a turn can be used what the turn before ended with, prompt and answer, but for the answer's last token, which was drawn and
//! not computed. That is counted as usable to the last token, though an answer may have other tokens once it is part of a prompt.

use std::path::Path;
use std::time::Duration;

use omlx_fixtures::{agent_turns, real_model};
use serde_json::{Value, json};

use crate::server::Server;

/// The base model of Gemma 3 has no template of its own; this is the one of its chat models, for plain texts.
const GEMMA: &str = "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n\
                     {{ m['content'] | trim }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";

/// A folder that serves one real model, with another template if there is one.
fn house(model: &Path, template: Option<&str>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("models/m");
    std::fs::create_dir_all(&own).unwrap();
    for file in std::fs::read_dir(model).unwrap() {
        let file = file.unwrap().path();
        std::os::unix::fs::symlink(&file, own.join(file.file_name().unwrap())).unwrap();
    }
    if let Some(template) = template {
        let place = own.join("chat_template.jinja");
        let _ = std::fs::remove_file(&place);
        std::fs::write(place, template).unwrap();
    }
    dir
}

/// After these turns the server is stopped and started again.
const RESTARTS: [usize; 4] = [0, 3, 9, 18];

/// The turn that a server which knows nothing answers too: later ones take it too long.
const COMPARED: usize = 7;

/// Has the conversation.
fn nothing_is_computed_twice(model: &str, template: Option<&str>) {
    let Some(path) = real_model(model) else { return };
    let house = house(&path, template);
    let serve = |args: &[&str]| {
        let own = ["--kv-memory", "2GiB", "--max-concurrent", "1"];
        Server::of(&house.path().join("models"), &[&own, args].concat())
    };
    let kept = house.path().join("kept");
    let kept = ["--cache-dir", kept.to_str().unwrap(), "--cache-disk", "4GiB"];
    let mut server = serve(&kept);
    let (mut messages, mut usable, mut shares) = (Vec::new(), 0, Vec::new());
    let mut compared = (Value::Null, Value::Null);
    for (turn, said) in agent_turns().into_iter().enumerate() {
        messages.push(json!({"role": "user", "content": said}));
        let request = json!({"model": "m", "messages": messages, "max_tokens": 8, "temperature": 0,
                             "logprobs": true, "top_logprobs": 3});
        let answer = server.chat(&request).send().ok();
        let usage = &answer["usage"];
        let count = |name: &str| usage[name].as_u64().unwrap();
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        if turn > 0 {
            shares.push(cached as f64 / usable as f64);
        }
        usable = count("prompt_tokens") + count("completion_tokens") - 1;
        messages.push(answer["choices"][0]["message"].clone());
        if turn == COMPARED {
            compared = (request, answer["choices"].clone());
        }
        if RESTARTS.contains(&turn) {
            server.signal("TERM");
            assert!(server.ended(Duration::from_secs(30)).success(), "{}", server.output());
            server = serve(&kept);
        }
    }
    drop(server);
    assert!(usable > 5_000, "the conversation is long: {usable} tokens");
    assert!(shares.iter().all(|share| *share >= 0.95), "{shares:.3?}");
    let (request, choices) = compared;
    let cold = serve(&["--no-cache"]).chat(&request).send().ok();
    assert_eq!(cold["choices"], choices, "what was kept changed an answer");
}

#[test]
fn smollm2_remembers_a_conversation() {
    nothing_is_computed_twice("smollm2-135m-instruct", None);
}

#[test]
fn gemma_3_remembers_a_conversation() {
    nothing_is_computed_twice("gemma-3-270m", Some(GEMMA));
}
