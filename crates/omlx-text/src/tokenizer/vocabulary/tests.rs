//! Vocabularies at the edge of what is taken.

use std::path::Path;

use serde_json::{Value, json};

use super::{MAX_ID, MAX_TOKEN_BYTES, SHORT};
use crate::error::Error;
use crate::tokenizer::Tokenizer;

fn with(vocab: &Value, added: &[&str]) -> Result<usize, Error> {
    let added: Vec<Value> = added
        .iter()
        .map(|text| json!({"id": 0, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}))
        .collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let file = json!({"version": "1.0", "added_tokens": added, "normalizer": null, "pre_tokenizer": byte_level, "post_processor": null,
        "decoder": byte_level, "model": {"type": "BPE", "vocab": vocab, "merges": []}});
    let tokenizer = Tokenizer::from_json(&serde_json::to_vec(&file).unwrap(), Path::new("m/tokenizer.json"))?;
    Ok(tokenizer.pieces.len())
}

/// Seen to fail: added tokens left out of the count of bytes.
#[test]
fn a_vocabulary_has_tokens_of_some_length() {
    let (book, long) = ("a".repeat(5_000_000), "a".repeat(MAX_TOKEN_BYTES));
    for (vocab, added, found) in [
        (json!({}), "", "found none"),
        (json!({"a": 0, &book: 1}), "", "found 5000000 bytes for token 1"),
        (json!({"a": 0}), book.as_str(), "found 5000000 bytes for token 1"),
        (json!({"a": 0, format!("{long}a"): 1}), "", "found 4097 bytes for token 1"),
    ] {
        let added: Vec<&str> = Some(added).filter(|text| !text.is_empty()).into_iter().collect();
        let error = with(&vocab, &added).expect_err(found);
        assert!(matches!(error, Error::Config { key: "model.vocab", .. }), "{found}: {error:?}");
        let text = error.to_string();
        assert!(text.starts_with("m/tokenizer.json: model.vocab should be ") && text.contains(found), "{text}");
        assert!(text.len() < 200, "{text}");
    }
    assert_eq!(with(&json!({"a": 0, long: 1}), &[]).unwrap(), 2);
    // no vocabulary of its own, but added tokens
    assert_eq!(with(&json!({}), &["<s>"]).unwrap(), 1);
    assert!(matches!(with(&json!({"a": MAX_ID + 1}), &[]), Err(Error::TokenId { .. })));
    assert!(SHORT.contains(&format!(" {MAX_TOKEN_BYTES} ")));
}
