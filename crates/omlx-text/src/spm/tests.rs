//! Merging by score, against a slow search for the best pair.

use super::*;
use proptest::prelude::*;

/// Letters, some joined pieces with scores, bytes for what is missing, and two whole tokens.
fn small() -> Spm {
    let pieces = [
        ("<unk>", 0.0, Role::Whole),
        ("<0xC3>", 0.0, Role::Byte(0xC3)),
        ("<0xA9>", 0.0, Role::Byte(0xA9)),
        ("a", -9.0, Role::Normal),
        ("b", -9.0, Role::Normal),
        ("▁", -9.0, Role::Normal),
        ("ab", -2.0, Role::Normal),
        ("ba", -2.0, Role::Normal),
        ("aa", -1.0, Role::Normal),
        ("▁a", -3.0, Role::Normal),
        ("<x>", 0.0, Role::Whole),
        ("<x>>", 0.0, Role::Whole),
        ("abab", -5.0, Role::Normal),
        ("bb", 0.0, Role::Silent),
    ];
    Spm::new(pieces.into_iter(), Some(0), false)
}

#[test]
fn tables() {
    for (text, expected) in [
        ("", &[][..]),
        ("ab", &[6]),
        ("aba", &[6, 3]),     // "ab" and "ba" score alike: the left one
        ("baab", &[4, 8, 4]), // "aa" scores best, wherever it stands
        ("abab", &[12]),
        ("bb", &[4, 4]),
        (" a", &[9]),
        ("é", &[1, 2]),
        ("aéa", &[3, 1, 2, 3]),
        ("z", &[0]),
        ("<x>a", &[10, 3]),
        ("a<x>>", &[3, 11]),
        ("<0xC3>", &[0, 0, 0, 0, 0, 0]),
    ] {
        assert_eq!(small().encode(text), expected, "{text:?}");
    }
}

#[test]
fn a_space_of_its_own() {
    let mut spm = small();
    spm.space_prefix = true;
    for (text, expected) in [("", &[][..]), ("a", &[9]), ("<x>a", &[10, 9]), (" a", &[5, 9])] {
        assert_eq!(spm.encode(text), expected, "{text:?}");
    }
}

#[test]
fn a_long_run_is_not_slow() {
    let text = "ab".repeat(1 << 17);
    assert_eq!(small().encode(&text).len(), 1 << 16);
}

/// Joins the best pair until there is none.
fn slow(spm: &Spm, text: &str) -> Vec<u32> {
    let text: String = text.chars().map(|c| if c == ' ' { SPACE_MARK } else { c }).collect();
    let mut runs: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let mut best: Option<(f32, usize)> = None;
        for at in 1..runs.len() {
            if let Some(piece) = spm.pieces.get(format!("{}{}", runs[at - 1], runs[at]).as_str())
                && best.is_none_or(|(score, _)| piece.score > score)
            {
                best = Some((piece.score, at));
            }
        }
        let Some((_, at)) = best else { break };
        let right = runs.remove(at);
        runs[at - 1].push_str(&right);
    }
    let mut ids = Vec::new();
    runs.iter().for_each(|run| spm.emit(run, &mut ids));
    ids
}

proptest! {
    // Faults seen caught: ties to the right; a stale merge taken.
    #[test]
    fn heap_and_search_agree(text in "[ab é]{0,24}") {
        prop_assert_eq!(small().encode(&text), slow(&small(), &text));
    }
}
