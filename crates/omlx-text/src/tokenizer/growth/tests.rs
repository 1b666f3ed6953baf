//! Each kind of normalizer against what the library makes of the worst text for it.

use base64::Engine as _;
use serde_json::{Value, json};
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper};

use super::{STANDARD, growth};

/// A character map without a trie, whose rules are `rules`.
fn map(rules: &[u8]) -> String {
    STANDARD.encode([&0_u32.to_le_bytes()[..], rules].concat())
}

#[test]
fn what_a_text_can_become() {
    let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
    let space = replace(json!({"String": " "}), "▁");
    for (normalizer, expected) in [
        (json!(null), 1),
        (json!({"type": "StripAccents"}), 1),
        (space.clone(), 3),
        (replace(json!({"String": "``"}), "\""), 1),
        (replace(json!({"String": "ab"}), "12345"), 3),
        (replace(json!({"String": ""}), "12345"), 6),
        (replace(json!({"Regex": "x*"}), "12345"), 6),
        (json!({"type": "Prepend", "prepend": "▁"}), 4),
        (json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, space]}), 9),
        (json!({"type": "NFKC"}), 11),
        (json!({"type": "Precompiled", "precompiled_charsmap": map(b"a\0bcd\0")}), 3),
        (json!({"type": "Precompiled", "precompiled_charsmap": ""}), 1),
        (json!({"type": "Precompiled", "precompiled_charsmap": "?"}), 1),
    ] {
        assert_eq!(growth(&normalizer), expected, "{normalizer}");
    }
    let many: Vec<Value> = vec![replace(json!({"String": "a"}), &"a".repeat(1000)); 40];
    assert_eq!(growth(&json!({"type": "Sequence", "normalizers": many})), usize::MAX, "no overflow");
}

/// Texts that real normalizers lengthen most. Seen to fail: 3 for the compatibility forms.
#[test]
fn the_library_never_lengthens_a_text_more() {
    let worst = ["\u{fdfa}", "\u{1d160}", "\u{390}", "İ", "中", "ß", "a b", "\u{0}\u{ad}", "e\u{301}", "ﬃ", "\u{200a}"];
    for normalizer in [
        json!({"type": "NFC"}),
        json!({"type": "NFD"}),
        json!({"type": "NFKC"}),
        json!({"type": "NFKD"}),
        json!({"type": "Lowercase"}),
        json!({"type": "ByteLevel"}),
        json!({"type": "Nmt"}),
        json!({"type": "StripAccents"}),
        json!({"type": "Strip", "strip_left": true, "strip_right": true}),
        json!({"type": "Prepend", "prepend": "▁"}),
        json!({"type": "Replace", "pattern": {"Regex": "[a-z]"}, "content": "long"}),
        json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}),
    ] {
        let library: NormalizerWrapper = serde_json::from_value(normalizer.clone()).unwrap();
        let bound = growth(&serde_json::to_value(&library).unwrap());
        for text in worst {
            let mut normalized = NormalizedString::from(text);
            library.normalize(&mut normalized).unwrap();
            assert!(normalized.get().len() <= bound * text.len(), "{normalizer} of {text:?}: {:?}", normalized.get());
        }
    }
}
