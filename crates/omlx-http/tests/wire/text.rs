//! Text: stop strings, split characters, end tokens, several answers; each case streamed and not, with equal outcome.
//!
//! Faults planted and seen: the held-back text of `finish` left out; the first part of a stream lost.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::rig::{Act, CHAT, Parts, Rig, TEXT, least, say, streamed, texts, with};

/// The script `entries` with `patch` gives `text` and `finish`, in both modes of both routes.
async fn check<E: AsRef<[u8]>>(entries: &[E], patch: Value, text: &str, finish: &str) {
    let rig = Rig::saying(entries);
    for path in [CHAT, TEXT] {
        let body = with(&least(path), &patch);
        let (status, answer) = rig.post(path, &body).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(
            (texts(&answer), answer["choices"][0]["finish_reason"].as_str()),
            (vec![text.to_owned()], Some(finish))
        );
        let with_usage = with(&body, &json!({"stream_options": {"include_usage": true}}));
        let (events, done) = rig.stream(path, &with_usage).await;
        assert!(done);
        assert_eq!(streamed(&events, 1), [text], "streamed");
        let reasons: Vec<_> = events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str()).collect();
        assert_eq!(reasons, [finish], "streamed");
        assert_eq!(events.last().expect("usage")["usage"], answer["usage"], "API-5: equal in both modes");
    }
}

const API_1: [&str; 6] = ["ok ", ">>", ">> E", "ND", "\n", "tail"];

#[tokio::test]
async fn api_1_stop_text_is_removed_whole() {
    check(&API_1, json!({"max_tokens": 8, "stop": [">>>> END", ">>>> END\n"]}), "ok ", "stop").await;
    check(&API_1, json!({"max_tokens": 8, "stop": ">>>> END"}), "ok ", "stop").await;
    check(&API_1, json!({"max_tokens": 8, "stop": ["tail"]}), "ok >>>> END\n", "stop").await;
}

#[tokio::test]
async fn api_1_without_stop_the_whole_script_comes() {
    check(&API_1, json!({"max_tokens": 8}), "ok >>>> END\ntail", "stop").await;
    check(&API_1, json!({"max_tokens": 8, "stop": [">>>> ENDE", "tails"]}), "ok >>>> END\ntail", "stop").await;
}

#[tokio::test]
async fn api_1_a_stop_string_that_only_began_is_text() {
    check(&API_1, json!({"max_tokens": 3, "stop": [">>>> END"]}), "ok >>>> E", "length").await;
}

#[tokio::test]
async fn api_3_one_character_over_several_tokens() {
    let emoji: [&[u8]; 5] = [&[0xf0], &[0x9f], &[0x98], &[0x80], b" ok"];
    check(&emoji, json!({}), "😀 ok", "stop").await;
    let rig = Rig::saying(&emoji);
    let (events, _) = rig.stream(CHAT, &least(CHAT)).await;
    let said: Vec<_> = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .filter(|text| !text.is_empty())
        .collect();
    assert_eq!(said, ["😀", " ok"], "one delta for the character");
}

#[tokio::test]
async fn api_3_a_character_cut_short() {
    let cut: [&[u8]; 3] = [&[0xed], &[0x95], b" ok"];
    check(&cut, json!({}), "\u{fffd} ok", "stop").await;
    check(&cut, json!({"max_tokens": 2}), "\u{fffd}", "length").await;
}

#[tokio::test]
async fn mod_5_the_end_token_is_not_shown() {
    check(&["a", "b", "<end>", "c"], json!({}), "ab", "stop").await;
    check(&["a", "b"], json!({"ignore_eos": true, "max_tokens": 5}), "abzz", "length").await;
}

#[tokio::test]
async fn several_answers() {
    let rig = Rig::saying(&["ok ", "then"]);
    for path in [CHAT, TEXT] {
        let body = with(&least(path), &json!({"n": 3}));
        let (status, answer) = rig.post(path, &body).await;
        assert_eq!((status, texts(&answer)), (200, vec!["ok then".to_owned(); 3]));
        let (events, done) = rig.stream(path, &body).await;
        assert_eq!((streamed(&events, 3), done), (vec!["ok then".to_owned(); 3], true));
        for index in 0..3 {
            let ends = events
                .iter()
                .filter(|e| e["choices"][0]["index"] == index && e["choices"][0]["finish_reason"] == "stop");
            assert_eq!(ends.count(), 1);
        }
    }
}

/// Any bytes, one token each, with any stop strings and limit: both modes give the same text, reason and usage, the text
/// holds no stop string, and it is what the bytes say up to there.
#[test]
fn both_modes_agree_on_any_script() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let script = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let said = script.clone();
    let act: Act = Box::new(move |request, reply| say(said.lock().unwrap().clone())(request, reply));
    let rig = Rig::new(&["ok "], Parts { act: Some(act), ..Parts::default() });
    // Few different bytes, so that stop strings do occur, whole characters and pieces of them among the bytes.
    let byte = prop::sample::select(b"ab \n\xe2\x82\xac\xf0\x9f\x98\x80\xff".to_vec());
    let cases = (prop::collection::vec(byte, 0..24), prop::collection::vec("[ab€ \n]{1,3}", 0..3), 1..24usize);
    let config = Config { failure_persistence: None, ..Config::with_cases(200) };
    let outcome = TestRunner::new(config).run(&cases, |(bytes, stops, limit)| {
        *script.lock().unwrap() = bytes.iter().copied().map(u32::from).collect();
        let body = with(&least(CHAT), &json!({"stop": stops, "max_tokens": limit}));
        let in_stream = with(&body, &json!({"stream_options": {"include_usage": true}}));
        let ((_, answer), (events, done)) =
            runtime.block_on(async { (rig.post(CHAT, &body).await, rig.stream(CHAT, &in_stream).await) });
        let text = texts(&answer).remove(0);
        prop_assert!(done);
        prop_assert_eq!(&streamed(&events, 1)[0], &text);
        let reason = events.iter().find_map(|event| event["choices"][0]["finish_reason"].as_str());
        prop_assert_eq!(reason, answer["choices"][0]["finish_reason"].as_str());
        prop_assert_eq!(&events.last().expect("usage")["usage"], &answer["usage"]);
        prop_assert!(stops.iter().all(|stop| !text.contains(stop)));
        let whole = String::from_utf8_lossy(&bytes[..limit.min(bytes.len())]).into_owned();
        prop_assert!(whole.starts_with(&text), "{:?} is not the start of {:?}", text, whole);
        prop_assert_eq!(text == whole, stops.iter().all(|stop| !whole.contains(stop)));
        Ok(())
    });
    outcome.unwrap();
}
