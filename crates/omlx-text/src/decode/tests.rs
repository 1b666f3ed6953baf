//! Whole characters for any cut, and the same text as decoding at once.

use super::*;
use proptest::prelude::*;

/// Feeds the parts one by one; gives what came out after each, and at the end.
fn run(parts: &[&[u8]]) -> Vec<String> {
    let mut decoder = Decoder::default();
    let mut outs: Vec<String> = parts
        .iter()
        .map(|part| {
            let mut out = String::new();
            decoder.push(part, &mut out);
            out
        })
        .collect();
    let mut last = String::new();
    decoder.finish(&mut last);
    outs.push(last);
    outs
}

#[test]
fn tables() {
    for (parts, expected) in [
        (&[&b"\xF0"[..], b"\x9F", b"\x98", b"\x80", b" ok"][..], &["", "", "", "😀", " ok", ""][..]),
        (&[b"\xED\x95", b" next"], &["", "\u{FFFD} next", ""]),
        (&[b"a\xED\x95"], &["a", "\u{FFFD}"]),
        (&[b"\xFF", b"b"], &["\u{FFFD}", "b", ""]),
        (&[b"\xED\x95", b"\x9C\xED"], &["", "한", "\u{FFFD}"]),
        (&[b"", b""], &["", "", ""]),
    ] {
        assert_eq!(run(parts), expected, "{parts:?}");
    }
}

proptest! {
    // Fault seen caught: a U+FFFD per byte.
    #[test]
    fn any_cut_gives_the_text_of_the_whole(
        pieces in prop::collection::vec(
            prop_oneof![
                Just("é".as_bytes().to_vec()), Just("한".as_bytes().to_vec()), Just("😀".as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 0..4), Just(b" a".to_vec()),
            ], 0..12),
        cuts in prop::collection::vec(1usize..5, 0..40),
    ) {
        let bytes = pieces.concat();
        let (mut parts, mut rest) = (Vec::new(), &bytes[..]);
        for cut in cuts {
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            parts.push(head);
            rest = tail;
        }
        parts.push(rest);
        prop_assert_eq!(run(&parts).concat(), String::from_utf8_lossy(&bytes));
    }
}
