//! Parts by name, an example's lines, and the rate of several streams.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn parts_are_chosen_by_name() {
    assert_eq!(parts(&[]).unwrap().len(), PARTS.len());
    assert_eq!(parts(&["index", "first"]).unwrap().len(), 2);
    let error = parts(&["frist"]).unwrap_err().to_string();
    assert!(error.contains("no part `frist`") && error.contains("first, behind"), "{error}");
}

#[test]
fn a_row_says_whether_its_bar_was_met() {
    let cells = ["a".to_owned(), "1".to_owned()];
    assert_eq!(row(&cells, true, "below 3"), "| a | 1 | below 3 |");
    assert_eq!(row(&cells, false, "below 3"), "| a | 1 | below 3, not met |");
}

#[test]
fn an_example_says_every_figure_in_every_round() {
    let lines = "{\"plain\":10,\"read\":8}\n{\"plain\":20,\"read\":4}\n";
    let figures = disk::gather("x", lines, &["plain", "read"]).unwrap();
    assert_eq!(figures["read"], [8.0, 4.0]);
    for (lines, why) in [("{\"plain\":10}", "does not say read"), ("", "says nothing"), ("plain", "x: ")] {
        let error = disk::gather("x", lines, &["plain", "read"]).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn streams_count_from_when_all_of_them_run() {
    let begin = Instant::now();
    let at = |ms: &[u64]| ms.iter().map(|ms| begin + Duration::from_millis(*ms)).collect::<Vec<_>>();
    // after 200 ms: two of the first, three of the second, until 700 ms
    let rate = stream::rate(&[at(&[0, 100, 300, 500]), at(&[200, 400, 600, 700])]);
    assert_eq!(rate.map(f64::round), Some(10.0));
    assert_eq!(stream::rate(&[at(&[0]), at(&[0])]), None);
    assert_eq!(stream::rate(&[Vec::new()]), None);
}

#[test]
fn prompts_part_at_their_first_token() {
    let (one, other) = (stream::prompt(5, 1), stream::prompt(5, 2));
    assert_eq!((one.len(), &one), (5, &stream::prompt(5, 1)));
    assert_ne!(one[0], other[0]);
    assert!(one.iter().all(|id| (500..49_000).contains(id)), "{one:?}");
}

#[test]
fn processor_time_is_found_behind_any_name() {
    let stat = "12 (a) b 7) S 1 2 3 4 5 6 7 8 9 10 110 25 0 0 20";
    assert_eq!(served::ticks_of(stat), Some(135.0));
    assert_eq!(served::ticks_of("12 (a) S 1"), None);
}
