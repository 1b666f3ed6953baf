//! Cuts against a naive search in the whole text, for any division into parts.

use super::*;
use proptest::prelude::*;

/// Feeds parts until stopped; gives the text and whether it was stopped.
fn run(stops: &[&str], parts: &[&str]) -> (String, bool) {
    let stops: Vec<String> = stops.iter().map(|s| (*s).to_owned()).collect();
    let (mut watch, mut out) = (Stops::new(&stops), String::new());
    for part in parts {
        if watch.push(part, &mut out) {
            return (out, true);
        }
    }
    let stopped = watch.finish(&mut out);
    (out, stopped)
}

#[test]
fn tables() {
    for (stops, parts, text, stopped) in [
        (&[][..], &["a", "b"][..], "ab", false),
        (&[""], &["ab"], "ab", false),
        (&[">>>> END", ">>>> END\n"], &["ok ", ">>", ">> E", "ND", "\n", "tail"], "ok ", true),
        (&["END"], &["EN", "EEND"], "ENE", true),
        (&["END"], &["x EN"], "x EN", false),
        // The longer stop began earlier: it is awaited, and wins when it comes.
        (&["abcdef", "cd"], &["abcd", "ef"], "", true),
        (&["abcdef", "cd"], &["abcd", "eX"], "ab", true),
        (&["abcdef", "cd"], &["abcd"], "ab", true),
        (&["aab"], &["aa", "aab"], "aa", true),
        (&["é"], &["caf", "é!"], "caf", true),
    ] {
        assert_eq!(run(stops, parts), (text.to_owned(), stopped), "{stops:?} {parts:?}");
    }
}

#[test]
fn text_is_held_back_no_longer_than_it_must() {
    let (mut watch, mut out) = (Stops::new(&["abc".into()]), String::new());
    for (part, sure) in [("xa", "x"), ("b", "x"), ("a", "xab"), ("z", "xabaz")] {
        assert!(!watch.push(part, &mut out));
        assert_eq!(out, sure);
    }
}

#[test]
fn after_the_stop_nothing_comes() {
    let (mut watch, mut out) = (Stops::new(&["b".into()]), String::new());
    assert!(watch.push("abc", &mut out));
    assert!(watch.push("def", &mut out) && watch.finish(&mut out));
    assert_eq!(out, "a");
}

proptest! {
    // Faults seen caught: not awaiting the longer stop; the held text counted with bytes that were
    // not searched yet.
    #[test]
    fn cut_is_that_of_a_naive_search(
        text in "[abé]{0,24}",
        stops in prop::collection::vec("[abé]{1,5}", 0..4),
        cuts in prop::collection::vec(1usize..4, 0..24),
    ) {
        let expected = match stops.iter().filter_map(|s| text.find(s.as_str())).min() {
            Some(at) => (text[..at].to_owned(), true),
            None => (text.clone(), false),
        };
        let (mut parts, mut rest) = (Vec::new(), text.as_str());
        for cut in cuts {
            let at = rest.char_indices().nth(cut).map_or(rest.len(), |(at, _)| at);
            parts.push(&rest[..at]);
            rest = &rest[at..];
        }
        parts.push(rest);
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        prop_assert_eq!(run(&stops, &parts), expected);
    }
}
