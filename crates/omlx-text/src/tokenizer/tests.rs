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
