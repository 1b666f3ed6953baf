//! By how much a tokenizer file's normalizer can lengthen a text, found without running it.
//!
//! A file from anywhere may replace each letter by a book, and the library does so before anybody can count. Real normalizers at
//! most lengthen a text eleven times (compatibility forms of single ligatures), most of them three times (a space becomes `▁`).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use serde_json::Value;

/// Bytes that one byte may become under compatibility normalization: U+FDFA, 3 bytes, is 33 afterwards.
/// <https://unicode.org/faq/normalization.html>
const COMPATIBILITY: usize = 11;
/// The same for canonical normalization.
const CANONICAL: usize = 3;

/// Most bytes that each byte of a text can become, and 1 at least; saturates.
pub(super) fn growth(normalizer: &Value) -> usize {
    let text = |key: &str| normalizer.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "Sequence" => {
            let steps = normalizer.get("normalizers").and_then(Value::as_array);
            steps.into_iter().flatten().map(growth).fold(1, usize::saturating_mul)
        }
        "Replace" => match normalizer.pointer("/pattern/String").and_then(Value::as_str) {
            Some(pattern) if !pattern.is_empty() => text("content").len().div_ceil(pattern.len()).max(1),
            // An expression may match nothing, and that between any two bytes.
            _ => text("content").len().saturating_add(1),
        },
        // Once before each piece of text: what stands between two special tokens, which is a byte at least.
        "Prepend" => text("prepend").len().saturating_add(1),
        "Precompiled" => longest_rule(text("precompiled_charsmap")).max(1),
        "NFKC" | "NFKD" => COMPATIBILITY,
        "BertNormalizer" => CANONICAL * 2,
        "NFC" | "NFD" => CANONICAL,
        "ByteLevel" | "Lowercase" => 2,
        // The rest takes away or leaves.
        _ => 1,
    }
}

/// The longest text between two zero bytes of a SentencePiece character map in base64: its rules stand so behind its trie.
fn longest_rule(map: &str) -> usize {
    let bytes = STANDARD.decode(map).unwrap_or_default();
    let trie = bytes.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let rules = bytes.get(trie.saturating_add(4)..).unwrap_or_default();
    rules.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
