//! Names to bytes, as tables.

use super::*;

#[test]
fn byte_level_alphabet_is_a_bijection() {
    let mut seen = [false; 256];
    for c in ('\0'..='\u{200}').filter_map(byte_of) {
        assert!(!std::mem::replace(&mut seen[c as usize], true), "byte {c} twice");
    }
    assert!(seen.iter().all(|s| *s));
    // Fault seen caught: 0x7E for 0x7F, the first of the bytes above the printable ones.
}

#[test]
fn names() {
    let plain = Spelling::Plain { byte_fallback: true, space: Some(SPACE_MARK) };
    let literal = Spelling::Plain { byte_fallback: false, space: None };
    for (spelling, name, bytes) in [
        (Spelling::ByteLevel, "Ġhi", &b" hi"[..]),
        (Spelling::ByteLevel, "Ċ", b"\n"),
        (Spelling::ByteLevel, "<|im_end|>", b"<|im_end|>"),
        (Spelling::ByteLevel, "a b", b"a b"),
        (plain, "▁hi▁", b" hi "),
        (plain, "<0x0A>", b"\n"),
        (plain, "<0xfF>", b"\xff"),
        (plain, "<0x+A>", b"<0x+A>"),
        (plain, "<0x0AB>", b"<0x0AB>"),
        (literal, "<0x0A>", b"<0x0A>"),
    ] {
        assert_eq!(spelling.bytes(name), bytes, "{name}");
    }
}
