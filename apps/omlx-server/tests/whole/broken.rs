//! Bad input: every kind of broken folder beside a good model. The message names file, key and remedy; the good one is
//! served before, between and after.

use std::fs;
use std::path::Path;

use omlx_fixtures::{RandomLlama, random_llama};
use serde_json::{Value, json};

use crate::server::{Server, fails};
use crate::text::edit;

/// How a whole folder is broken, and what must be said about it.
struct Case {
    name: &'static str,
    shards: usize,
    spoil: fn(&Path),
    says: &'static [&'static str],
}

const SHARD: &str = "model-00002-of-00003.safetensors";

const PUBLISHER: &str = "take config.json from the model's publisher";

fn cases() -> Vec<Case> {
    let case = |name, spoil, says| Case { name, shards: 1, spoil, says };
    let sharded = |name, spoil, says| Case { name, shards: 3, spoil, says };
    vec![
        sharded("mod_1_a_missing_shard", |d| remove(d, SHARD), &[SHARD, "missing", "download"]),
        sharded("mod_1_d_no_index", unindexed, &[SHARD, "missing", "download it again"]),
        sharded("mod_1_f_empty_shard", |d| fs::write(d.join(SHARD), "").unwrap(), &[SHARD, "download"]),
        sharded("mod_1_e_tensor_elsewhere", misplace, &["lm_head.weight", "safetensors", "download the index"]),
        case("mod_1_c_no_weights", |d| remove(d, "model.safetensors"), &["safetensors", "download"]),
        case(
            "file_1_cut_short",
            |d| cut(d, |bytes| bytes.truncate(bytes.len() - 100)),
            &["model.safetensors", "again"],
        ),
        case("file_1_trailing", |d| cut(d, |bytes| bytes.extend([0; 16])), &["model.safetensors", "again"]),
        case(
            "file_1_header_over_file",
            |d| cut(d, |b| b[..8].copy_from_slice(&(1u64 << 20).to_le_bytes())),
            &["model.safetensors", "1048576", "fetch it again"],
        ),
        case(
            "file_1_header_huge",
            |d| cut(d, |b| b[..8].copy_from_slice(&u64::MAX.to_le_bytes())),
            &["model.safetensors", "18446744073709551615", "fetch it again"],
        ),
        case("file_1_overlap", overlap, &["model.safetensors", "fetch"]),
        case(
            "file_1_not_a_header",
            |d| fs::write(d.join("model.safetensors"), [b'x'; 64]).unwrap(),
            &["model.safetensors", "header", "fetch it again"],
        ),
        case(
            "unknown_architecture",
            |d| config(d, "model_type", json!("martian")),
            &["config.json", "model_type", "martian", "llama"],
        ),
        case("unknown_dtype", |d| dtype(d, "I32"), &["model.safetensors", "model.norm.weight", "I32", "BF16"]),
        case("no_dtype", |d| dtype(d, "F7"), &["model.safetensors", "model.norm.weight", "F7", "BF16"]),
        case(
            "empty_file",
            |d| fs::write(d.join("model.safetensors"), "").unwrap(),
            &["model.safetensors", "empty", "download"],
        ),
        sharded("mod_1_e_ghost", ghost, &["index.json", "ghost.weight", "download the index"]),
        case("weights_in_a_pipe", |d| pipe(d, "model.safetensors"), &["model.safetensors", "regular file"]),
        case("tokenizer_in_a_pipe", |d| pipe(d, "tokenizer.json"), &["tokenizer.json", "regular file"]),
        case(
            "unknown_rope",
            |d| config(d, "rope_scaling", json!({"rope_type": "spiral", "factor": 2})),
            &["config.json", "rope_scaling.rope_type", "spiral", "take a model"],
        ),
        case("key_absent", |d| config(d, "hidden_size", Value::Null), &["config.json", "hidden_size", PUBLISHER]),
        case(
            "key_of_another_kind",
            |d| config(d, "num_hidden_layers", json!("two")),
            &["config.json", "num_hidden_layers", PUBLISHER],
        ),
        case(
            "another_size",
            |d| config(d, "intermediate_size", json!(64)),
            &["model.safetensors", "mlp", "config.json"],
        ),
        case(
            "heads_that_do_not_divide",
            |d| config(d, "num_key_value_heads", json!(3)),
            &["config.json", "num_key_value_heads", PUBLISHER],
        ),
        case(
            "config_not_json",
            |d| fs::write(d.join("config.json"), "{").unwrap(),
            &["config.json", "fetch the file again"],
        ),
        case("config_absent", |d| remove(d, "config.json"), &["config.json", "give the folder"]),
        case("tokenizer_absent", |d| remove(d, "tokenizer.json"), &["tokenizer.json", "fetch"]),
        case(
            "tokenizer_not_json",
            |d| fs::write(d.join("tokenizer.json"), "[]").unwrap(),
            &["tokenizer.json", "fetch the file again"],
        ),
    ]
}

fn remove(dir: &Path, file: &str) {
    fs::remove_file(dir.join(file)).unwrap();
}

/// One shard of three missing, and no index to tell.
fn unindexed(dir: &Path) {
    remove(dir, SHARD);
    remove(dir, "model.safetensors.index.json");
}

fn config(dir: &Path, key: &str, value: Value) {
    edit(&dir.join("config.json"), |config| {
        config.as_object_mut().unwrap().remove(key);
        if !value.is_null() {
            config[key] = value;
        }
    });
}

fn cut(dir: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let path = dir.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Changes the header of a safetensors file, keeping its data.
fn header(path: &Path, change: impl FnOnce(&mut Value)) {
    let bytes = fs::read(path).unwrap();
    let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut value = serde_json::from_slice(&bytes[8..8 + size]).unwrap();
    change(&mut value);
    let mut head = value.to_string().into_bytes();
    head.resize(head.len().next_multiple_of(8), b' ');
    let whole = [&(head.len() as u64).to_le_bytes()[..], &head, &bytes[8 + size..]].concat();
    fs::write(path, whole).unwrap();
}

/// Two tensors of the same size lie on each other.
fn overlap(dir: &Path) {
    header(&dir.join("model.safetensors"), |h| {
        let first = h["model.layers.0.self_attn.k_proj.weight"]["data_offsets"].clone();
        h["model.layers.0.self_attn.v_proj.weight"]["data_offsets"] = first;
    });
}

fn dtype(dir: &Path, name: &str) {
    header(&dir.join("model.safetensors"), |h| h["model.norm.weight"]["dtype"] = name.into());
}

/// The index names a tensor that is nowhere.
fn ghost(dir: &Path) {
    edit(&dir.join("model.safetensors.index.json"), |index| index["weight_map"]["ghost.weight"] = SHARD.into());
}

/// Reading it without a look at what it is waits for ever.
fn pipe(dir: &Path, file: &str) {
    let path = dir.join(file);
    let _ = fs::remove_file(&path);
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The index names a tensor that its shard calls otherwise.
fn misplace(dir: &Path) {
    let index: Value = serde_json::from_slice(&fs::read(dir.join("model.safetensors.index.json")).unwrap()).unwrap();
    let shard = index["weight_map"]["lm_head.weight"].as_str().unwrap();
    header(&dir.join(shard), |h| {
        let tensor = h.as_object_mut().unwrap().remove("lm_head.weight").unwrap();
        h["something.else"] = tensor;
    });
}

#[test]
fn broken_models_are_named_and_disturb_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let cases = cases();
    for case in &cases {
        let model = dir.path().join(case.name);
        random_llama(&model, &RandomLlama { shards: case.shards, ..RandomLlama::default() });
        (case.spoil)(&model);
    }
    random_llama(&dir.path().join("good"), &RandomLlama { shards: 3, ..RandomLlama::default() });
    let server = Server::of(dir.path(), &[]);
    let ask = |model: &str| server.completions(&json!({"model": model, "prompt": "a", "max_tokens": 2})).send();
    ask("good").ok();
    for case in &cases {
        let answer = ask(case.name);
        assert!([404, 409].contains(&answer.status), "{}: {} {}", case.name, answer.status, answer.body);
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        for part in case.says {
            assert!(message.contains(part), "{}: no {part:?} in {message:?}", case.name);
        }
        let chat = json!({"model": case.name, "messages": [{"role": "user", "content": "a"}], "stream": true});
        assert_eq!(server.chat(&chat).send().status, answer.status, "{}", case.name);
        ask("good").ok();
    }
    let listed = server.get("/v1/models").ok();
    let ids: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, ["good"]);
    let output = server.output();
    for case in &cases {
        // Once for each reason, however often it is asked for: what was seen at the start, and what a load says of it.
        let said = output.matches(&format!("model {} is not offered", case.name)).count();
        assert!((1..=2).contains(&said), "{}: {said} times in {output}", case.name);
    }
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn mod_1_b_a_stale_index_does_not_hide_a_whole_model() {
    let dir = tempfile::tempdir().unwrap();
    random_llama(&dir.path().join("m"), &RandomLlama { shards: 2, ..RandomLlama::default() });
    edit(&dir.path().join("m/model.safetensors.index.json"), |index| {
        for (i, file) in index["weight_map"].as_object_mut().unwrap().values_mut().enumerate() {
            *file = format!("model-{:05}-of-00004.safetensors", i % 4 + 1).into();
        }
    });
    let server = Server::of(dir.path(), &[]);
    server.completions(&json!({"model": "m", "prompt": "a", "max_tokens": 2})).send().ok();
    assert!(server.output().contains("model-00001-of-00004.safetensors"), "{}", server.output());
}

#[test]
fn a_start_with_nothing_to_serve_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let bad = dir.path().join("bad");
    random_llama(&bad, &RandomLlama::default());
    remove(&bad, "tokenizer.json");
    let run = |flag: &str, path: &Path| fails(&["--port", "0", "--offline", flag, path.to_str().unwrap()]);
    for (flag, path, says) in [
        ("--model", dir.path().join("nowhere"), "there is no file or folder"),
        ("--model", bad, "tokenizer.json"),
        ("--model", empty.clone(), "config.json"),
        ("--model-dir", empty, "no model in"),
        ("--model-dir", dir.path().join("nowhere"), "nowhere"),
    ] {
        let said = run(flag, &path);
        assert!(said.contains(says) && !said.contains("panicked"), "{flag} {}: {said}", path.display());
    }
}

/// What cannot be served is neither listed nor the example of the start, but named in the log, with the remedy.
#[test]
fn what_cannot_be_served_is_not_offered() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        random_llama(&dir.path().join(name), &RandomLlama::default());
    }
    remove(&dir.path().join("a"), "tokenizer.json");
    config(&dir.path().join("b"), "model_type", json!("martian"));
    let server = Server::of(dir.path(), &["--context", "999999"]);
    let output = server.output();
    for part in [
        "model a is not offered: ",
        "no tokenizer.json; fetch it",
        "model b is not offered: ",
        "known: llama",
        "models          c\n",
        "not offered     2",
        "\"model\": \"c\"",
    ] {
        assert!(output.contains(part), "no {part:?} in {output}");
    }
    let listed = server.get("/v1/models").ok();
    let ids: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, ["c"]);
    let error = server.completions(&json!({"model": "a", "prompt": "a"})).send().error(409);
    assert!(error["message"].as_str().unwrap().contains("no tokenizer.json; fetch it"), "{error}");
}

/// Completions need no template, so a broken one is a warning at the load and a 400 for who chats.
#[test]
fn a_broken_template_is_said_at_the_load_and_hinders_no_completion() {
    let dir = tempfile::tempdir().unwrap();
    let [broken, piped, without] = ["broken", "piped", "without"].map(|name| dir.path().join(name));
    for model in [&broken, &piped, &without] {
        random_llama(model, &RandomLlama::default());
    }
    pipe(&piped, "chat_template.jinja");
    fs::write(broken.join("chat_template.jinja"), "{% if %}").unwrap();
    edit(&without.join("tokenizer_config.json"), |config| {
        config.as_object_mut().unwrap().remove("chat_template");
    });
    let server = Server::of(dir.path(), &[]);
    for (name, code, says) in [
        ("broken", "chat_template_failed", "chat_template.jinja: chat template, line 1"),
        ("piped", "chat_template_failed", "regular file"),
        ("without", "no_chat_template", "/v1/completions"),
    ] {
        server.completions(&json!({"model": name, "prompt": "a", "max_tokens": 2})).send().ok();
        let chat = json!({"model": name, "messages": [{"role": "user", "content": "a"}]});
        let error = server.chat(&chat).send().error(400);
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    let output = server.output();
    assert!(
        output.contains("model piped: ")
            && output.contains("model broken: ")
            && output.contains("chat template, line 1"),
        "{output}"
    );
    assert!(output.contains("model without has no chat template"), "{output}");
}
