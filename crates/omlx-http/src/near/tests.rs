//! Names that are nearly right, and names that are not.
//!
//! Seen to fail: case compared, the extension kept, any two names called alike.

use super::*;

#[test]
fn hints() {
    let known = ["gguf/SmolLM2-135M-Instruct.Q4_1", "Qwen/Qwen2.5-Coder-0.5B-Instruct", "gemma-3-270m", "x"];
    let known = known.map(str::to_owned);
    for (name, expected) in [
        ("smollm2-135m-instruct.q4_1", Some(0)),
        ("models/SmolLM2-135M-Instruct.Q4_1.gguf", Some(0)),
        ("SmolLM2-135M-Instruct", Some(0)),
        ("SmolLM2-135M-Instruct.Q4_0", Some(0)),
        ("SmoLLM-135-Instruct.Q4_1", Some(0)),
        ("qwen2.5-coder-0.5b-instruct", Some(1)),
        ("Qwen2.5 Coder 0.5B Instruct", Some(1)),
        ("gemma3-270m", Some(2)),
        ("gemma-3-270m-it", Some(2)),
        ("gemma-3-270m:latest", Some(2)),
        ("gpt-4o", None),
        ("llama", None),
        ("y", None),
        ("X", Some(3)),
        ("", None),
        ("/", None),
    ] {
        assert_eq!(nearest(name, &known), expected.map(|i: usize| known[i].as_str()), "{name:?}");
    }
    assert_eq!(nearest(&"x".repeat(1 << 20), &known), None);
    assert_eq!(nearest("x", &[]), None);
    let twins = ["org/tiny".to_owned(), "org2/tiny".to_owned()];
    assert_eq!(nearest("org2/tinny", &twins), Some("org2/tiny"));
}

#[test]
fn letters_apart() {
    let count = |a: &str, b: &str| edits(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
    for (a, b, expected) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("é", "e", 1), ("ab", "ba", 2)] {
        assert_eq!((count(a, b), count(b, a)), (expected, expected), "{a} {b}");
    }
}
