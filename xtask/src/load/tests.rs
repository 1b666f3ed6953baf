//! The judge of answers: what is whole passes, everything else is a fault. And a server that never answers is a hang.

use super::client::{Dice, End, check, prompt};
use super::grown;
use std::time::Duration;

const OK: &str = "HTTP/1.0 200 OK\r\na: b\r\n\r\n";

#[test]
fn whole_answers_pass() {
    let body = r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}"#;
    assert_eq!(check(&format!("{OK}{body}"), false), Ok(End::Answered));
    let stream = "data: {\"choices\":[{\"delta\":{}}]}\n\n: beat\n\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(check(&format!("{OK}{stream}"), true), Ok(End::Answered));
    let busy = "HTTP/1.0 503 Service Unavailable\r\n\r\n{\"error\":{\"message\":\"full\"}}";
    assert_eq!(check(busy, true), Ok(End::Refused));
}

#[test]
fn everything_else_is_a_fault() {
    for stream in [
        "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n",
        "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\ndata: {}\n\n",
        "data: {\"error\":{}}\n\ndata: [DONE]\n\n",
        "data: {half\n\n",
        "",
    ] {
        assert!(check(&format!("{OK}{stream}"), true).is_err(), "{stream}");
    }
    for answer in ["", "HTTP/1.0 500 Oh\r\n\r\n{}", "HTTP/1.0 503 Full\r\n\r\n", &format!("{OK}{{}}")] {
        assert!(check(answer, false).is_err(), "{answer}");
    }
}

#[test]
fn growth_is_measured_from_the_first_minute() {
    let at = |s, bytes| (Duration::from_secs(s), bytes);
    assert!(grown(&[at(5, 10), at(60, 1000), at(120, 1040)], Some(1040)).is_none());
    assert!(grown(&[at(5, 10), at(60, 1000), at(120, 1040)], Some(1060)).is_some());
}

#[test]
fn the_same_seed_draws_the_same_prompt() {
    assert_eq!(prompt(&mut Dice(3), 50), prompt(&mut Dice(3), 50));
    assert_ne!(prompt(&mut Dice(3), 50), prompt(&mut Dice(4), 50));
}
