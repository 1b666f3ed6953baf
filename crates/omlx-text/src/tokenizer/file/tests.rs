//! What is read in one pass is what the library reads.

use omlx_fixtures::{real_model, tiny};
use serde_json::{Value, json};

use super::*;

/// As the library would write it down again: every field, every token, every merge in order.
fn written(library: &Library) -> String {
    serde_json::to_string(library).unwrap()
}

#[track_caller]
fn same(json: &[u8]) {
    let ours = serde_json::from_slice::<File>(json).unwrap().build().expect("read in one pass");
    let theirs = Library::from_bytes(json).unwrap();
    assert!(written(&ours) == written(&theirs));
    assert_eq!(ours.get_added_tokens_decoder(), theirs.get_added_tokens_decoder());
}

fn small(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut file = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [
            {"id": 3, "content": "<s>", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true},
            {"id": 9, "content": "b c", "single_word": true, "lstrip": false, "rstrip": true, "normalized": true, "special": false}],
        "normalizer": {"type": "Prepend", "prepend": "▁"}, "pre_tokenizer": null,
        "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "dropout": null, "unk_token": "a", "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": true, "byte_fallback": true, "ignore_merges": true,
            "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3, "abb": 4}, "merges": [["a", "b"], ["ab", "b"]]},
    });
    change(&mut file);
    file.to_string().into_bytes()
}

#[test]
fn every_field_arrives() {
    same(&small(|_| {}));
    same(&small(|f| f["model"]["merges"] = json!(["a b", "ab b"])));
    same(&small(|f| f["model"]["end_of_word_suffix"] = json!("b")));
    same(&small(|f| f["normalizer"] = Value::Null));
    for key in ["fuse_unk", "byte_fallback", "ignore_merges"] {
        same(&small(|f| f["model"][key] = json!(false)));
        same(&small(|f| drop(f["model"].as_object_mut().unwrap().remove(key))));
    }
    same(&small(|f| drop(f.as_object_mut().unwrap().remove("added_tokens"))));
}

#[test]
fn tiny_and_real_files() {
    for name in ["llama", "gemma3_text"] {
        same(&std::fs::read(tiny(name).join("tokenizer.json")).unwrap());
    }
    for name in ["smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct", "gemma-3-270m"] {
        let Some(file) = real_model(name).map(|folder| folder.join("tokenizer.json")) else { continue };
        // A folder made of Gemma's GGUF file has none; one from the hub has.
        if name != "gemma-3-270m" || file.exists() {
            same(&std::fs::read(file).unwrap());
        }
    }
}

/// The library's word counts, for what it takes and for what it refuses.
#[test]
fn what_is_not_expected_is_left_to_the_library() {
    let check = |json: &[u8]| {
        assert!(serde_json::from_slice::<File>(json).ok().and_then(File::build).is_none());
        match (read(json), Library::from_bytes(json)) {
            (Ok(ours), Ok(theirs)) => assert_eq!(written(&ours), written(&theirs)),
            (Err(ours), Err(theirs)) => assert_eq!(ours.to_string(), theirs.to_string()),
            (ours, theirs) => panic!("{:?} {:?}", ours.err(), theirs.err()),
        }
    };
    check(&small(|f| f["model"] = json!({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"})));
    check(&small(|f| drop(f["model"].as_object_mut().unwrap().remove("type"))));
    check(&small(|f| f["version"] = json!("2.0")));
    check(&small(|f| f["model"]["merges"] = json!([["a", "x"]])));
    check(&small(|f| f["model"]["merges"] = json!(["#version: 0.2", "a b"])));
    check(&small(|f| f["decoder"] = json!({"type": "Unheard"})));
    check(b"[]");
    check(b"");
}
