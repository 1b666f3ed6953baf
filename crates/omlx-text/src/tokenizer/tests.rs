//! Decoders read from their JSON, and limits.

use super::*;
use serde_json::json;

#[test]
fn decoders() {
    let space = Some('▁');
    let sequence = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
    for (decoder, expected) in [
        (json!({"type": "ByteLevel", "add_prefix_space": true}), (Spelling::ByteLevel, false)),
        (sequence, (Spelling::Plain { byte_fallback: true, space }, true)),
        (
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}),
            (Spelling::Plain { byte_fallback: false, space }, false),
        ),
        (
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}),
            (Spelling::Plain { byte_fallback: false, space }, true),
        ),
    ] {
        assert_eq!(spelling(&decoder), Ok(expected), "{decoder}");
    }
    for (decoder, name) in [
        (json!(null), "none"),
        (json!({"type": "WordPiece"}), "WordPiece"),
        (json!({"type": "Strip", "content": "x", "start": 1, "stop": 0}), "Strip"),
    ] {
        assert_eq!(spelling(&decoder), Err(name.to_owned()));
    }
}

#[test]
fn too_long_a_text_is_refused() {
    let json = br#"{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,
        "decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false},
        "model":{"type":"BPE","vocab":{"a":0},"merges":[]}}"#;
    let tokenizer = Tokenizer::from_json(json, Path::new("tokenizer.json")).unwrap();
    assert_eq!(tokenizer.encode("aa", false).unwrap(), [0, 0]);
    let long = "a".repeat(MAX_TEXT_BYTES + 1);
    assert!(matches!(tokenizer.encode(&long, false), Err(Error::TextTooLong { .. })));
}

/// A byte-level tokenizer with one key replaced.
fn with(key: &str, value: Value) -> Vec<u8> {
    let mut file = json!({"version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}});
    file[key] = value;
    serde_json::to_vec(&file).unwrap()
}

/// Files that the library reads without complaint, and then panics or fills the memory.
#[test]
fn a_file_that_cannot_be_used_is_refused_when_it_is_read() {
    let charsmap = json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAAAEAAAA"});
    let empty = json!({"type": "Replace", "pattern": {"String": ""}, "content": "x"});
    let book = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "x".repeat(100_000)});
    let read = |key: &str, value| Tokenizer::from_json(&with(key, value), Path::new("tokenizer.json")).map(drop);
    for (key, value) in [("normalizer", charsmap), ("normalizer", empty)] {
        let error = read(key, value.clone()).expect_err(&value.to_string());
        assert!(matches!(error, Error::Tokenizer { .. }), "{value}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("tokenizer.json") && text.contains("fetch the file again"), "{text}");
    }
    assert!(matches!(read("normalizer", book), Err(Error::Growth { growth: 100_000, .. })));
    read("normalizer", json!({"type": "NFC"})).unwrap();
}

#[test]
fn a_text_may_be_as_long_as_its_normal_form_stays_small() {
    let growing =
        with("normalizer", json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(512)}));
    let tokenizer = Tokenizer::from_json(&growing, Path::new("tokenizer.json")).unwrap();
    let limit = MAX_NORMALIZED_BYTES / 512;
    assert_eq!(tokenizer.encode("a", false).unwrap().len(), 512);
    let refused = tokenizer.encode(&"a".repeat(limit + 1), false);
    assert!(matches!(refused, Err(Error::TextTooLong { limit: most, .. }) if most == limit));
}
