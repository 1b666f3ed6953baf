//! Text: stop strings, split characters, end tokens, several answers; each case streamed and not, with equal outcome.
//!
//! Faults planted and seen: the held-back text of `finish` left out; the ticket kept after a stop string; the end reported
//! as `length` when the last piece completes a stop string.

use serde_json::{Value, json};

use crate::rig::{CHAT, Rig, TEXT, least, streamed, texts, with};

/// The script `entries` with `patch` gives `text` and `finish`, in both modes of both routes.
async fn check<E: AsRef<[u8]>>(entries: &[E], patch: Value, text: &str, finish: &str) {
    let rig = Rig::saying(entries);
    for path in [CHAT, TEXT] {
        let body = with(&least(path), &patch);
        let (status, answer) = rig.post(path, &body).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!((texts(&answer), answer["choices"][0]["finish_reason"].as_str()), (vec![text.to_owned()], Some(finish)));
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
            let ends = events.iter().filter(|e| e["choices"][0]["index"] == index && e["choices"][0]["finish_reason"] == "stop");
            assert_eq!(ends.count(), 1);
        }
    }
}
