//! Real vocabularies against ids that the reference tokenizers gave, from the model folder and from the GGUF.
//!
//! Faults seen caught: SmolLM's digits not cut singly; a stale SentencePiece merge taken.

use std::time::Instant;

use omlx_fixtures::{real_gguf, real_model};
use omlx_text::{Chat, Error, TextModel};
use serde_json::Value;

/// Model folders, and the GGUF that holds the same vocabulary.
const MODELS: [(&str, &str); 3] = [
    ("smollm2-135m-instruct", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    ("gemma-3-270m", "gemma-3-270m-q4_k_m.gguf"),
    ("qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
];

fn golden(name: &str) -> Value {
    let path = omlx_fixtures::folder().join("tok").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("golden file")
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).expect("a list of ids")
}

/// Every text case, both ways, and streamed.
fn check_cases(model: &TextModel, golden: &Value, gguf: bool) {
    for case in golden["cases"].as_array().expect("cases") {
        let text = case["text"].as_str().expect("text");
        let plain = ids(&case["ids_no_special"]);
        assert_eq!(model.encode(text, true).expect("encodes"), ids(&case["ids"]), "{text:?}");
        assert_eq!(model.encode(text, false).expect("encodes"), plain, "{text:?}");
        assert_eq!(model.decode(&plain, false).expect("decodes"), case["decoded"], "{text:?}");
        // GGUF files call more tokens control tokens than the tokenizers do.
        if !gguf {
            assert_eq!(model.decode(&plain, true).expect("decodes"), case["decoded_skip_special"], "{text:?}");
        }
        let mut session = model.session(&[]);
        let mut streamed: String = plain.iter().map(|id| session.push(*id).text).collect();
        streamed += &session.finish().text;
        assert_eq!(streamed, model.decode(&plain, true).expect("decodes"), "{text:?}");
    }
}

fn check_chats(model: &TextModel, golden: &Value) {
    for case in golden["chat"].as_array().expect("chat") {
        let chat = Chat {
            messages: case["messages"].as_array().expect("messages").clone(),
            tools: case["tools"].as_array().cloned(),
            add_generation_prompt: case["add_generation_prompt"] == true,
            ..Chat::default()
        };
        assert_eq!(model.render_chat(&chat).expect("renders"), case["text"].as_str().expect("text"));
        assert_eq!(model.encode_chat(&chat).expect("encodes"), ids(&case["ids"]));
    }
}

#[test]
fn folders_give_the_reference_ids() {
    for (name, _) in MODELS {
        let Some(folder) = real_model(name) else { continue };
        let model = TextModel::load(&folder).expect("loads");
        check_cases(&model, &golden(name), false);
        check_chats(&model, &golden(name));
    }
}

#[test]
fn gguf_files_give_the_reference_ids() {
    for (name, file) in MODELS {
        let Some(file) = real_gguf(name, file) else { continue };
        let began = Instant::now();
        let model = TextModel::load(&file).expect("loads");
        let took = began.elapsed();
        // One second is the goal; a busy machine and a debug build get five.
        assert!(took.as_secs() < 5, "{name} took {took:?} to load");
        check_cases(&model, &golden(name), true);
        check_chats(&model, &golden(name));
    }
}

#[test]
fn folder_and_gguf_agree_on_much_text() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/spm.rs")).expect("readable");
    for (name, file) in MODELS {
        let (Some(folder), Some(file)) = (real_model(name), real_gguf(name, file)) else { continue };
        let (folder, file) = (TextModel::load(&folder).expect("loads"), TextModel::load(&file).expect("loads"));
        let cases = golden(name);
        let cases = cases["cases"].as_array().expect("cases");
        let all: String = cases.iter().filter_map(|case| case["text"].as_str()).collect();
        for text in [&text, &all, &all.to_uppercase(), &all.replace(' ', "  "), &all.chars().rev().collect()] {
            assert_eq!(
                folder.encode(text, true).expect("encodes"),
                file.encode(text, true).expect("encodes"),
                "{name}"
            );
            // what is refused unencoded is never shorter than it was said to be
            let tokens = folder.encode(text, true).expect("encodes").len();
            for model in [&folder, &file] {
                assert!(model.encode_within(text, true, tokens + 1).is_ok(), "{name}: {tokens} tokens");
            }
        }
        let long = "word ".repeat(1 << 20);
        for model in [&folder, &file] {
            let refused = model.encode_within(&long, true, 2048);
            assert!(matches!(refused, Err(Error::TooManyTokens { least, most: 2048 }) if least >= 2048), "{name}");
        }
        assert!(file.stop_ids().iter().all(|id| folder.stop_ids().contains(id)), "{name}");
    }
}
