//! MOD-5: an answer ends at every end token that any file of the model names.

use omlx_fixtures::{END_1, END_2, parrot};
use serde_json::{Value, json};

use crate::server::Server;
use crate::text::edit;

/// One folder's say about end tokens; `null` where a file says nothing.
struct Files {
    name: &'static str,
    generation: Value,
    config: Value,
    nested: Value,
    tokenizer: Value,
}

fn files(name: &'static str) -> Files {
    Files { name, generation: Value::Null, config: Value::Null, nested: Value::Null, tokenizer: "<e1>".into() }
}

fn cases() -> Vec<Files> {
    vec![
        Files { generation: END_2.into(), ..files("generation_int") },
        Files { generation: json!([END_2]), ..files("generation_list") },
        Files { generation: json!([END_2, END_1]), ..files("generation_two") },
        Files { generation: END_1.into(), config: END_2.into(), ..files("config_int") },
        Files { generation: END_1.into(), config: json!([END_2]), ..files("config_list") },
        Files { generation: END_1.into(), nested: END_2.into(), ..files("config_nested") },
        Files { generation: END_1.into(), tokenizer: "<e2>".into(), ..files("tokenizer_text") },
        Files { generation: END_1.into(), tokenizer: json!({"content": "<e2>"}), ..files("tokenizer_object") },
        Files { tokenizer: Value::Null, generation: END_2.into(), ..files("generation_alone") },
    ]
}

fn put(map: &mut Value, key: &str, value: &Value) {
    let map = map.as_object_mut().unwrap();
    map.remove(key);
    if !value.is_null() {
        map.insert(key.to_owned(), value.clone());
    }
}

#[test]
fn mod_5_every_source_of_end_tokens_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = cases();
    cases.push(files("none"));
    for case in &cases {
        let model = dir.path().join(case.name);
        parrot(&model, &["a", "b", "<e2>", "c"]);
        edit(&model.join("generation_config.json"), |g| put(g, "eos_token_id", &case.generation));
        edit(&model.join("config.json"), |c| {
            put(c, "eos_token_id", &case.config);
            if !case.nested.is_null() {
                c["eos_token_id"] = case.nested.clone();
                *c = json!({"model_type": "llama", "text_config": c.clone()});
            }
        });
        edit(&model.join("tokenizer_config.json"), |t| put(t, "eos_token", &case.tokenizer));
    }
    let server = Server::of(dir.path(), &[]);
    for case in &cases {
        let ends = case.name != "none";
        let request = json!({"model": case.name, "prompt": "<go>", "max_tokens": 4, "temperature": 0, "logprobs": 1});
        let answer = server.completions(&request).send().ok();
        let choice = &answer["choices"][0];
        let expected = if ends { ("ab", "stop", 3) } else { ("abc", "length", 4) };
        let usage = answer["usage"]["completion_tokens"].as_u64().unwrap();
        let found = (choice["text"].as_str().unwrap(), choice["finish_reason"].as_str().unwrap(), usage);
        assert_eq!(found, expected, "{}", case.name);
        if ends {
            assert!(!choice["logprobs"]["tokens"].to_string().contains("e2"), "{}: {choice}", case.name);
        }

        let mut request = request;
        request["stream"] = true.into();
        let events = server.completions(&request).send().events();
        let text: String = events.iter().filter_map(|e| e["choices"][0]["text"].as_str()).collect();
        assert_eq!(text, expected.0, "{}", case.name);
    }
}
