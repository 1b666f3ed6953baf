//! API-5: usage is there, right, and equal in both modes.
//!
//! Faults planted and seen: cached tokens lost when a stop string cuts the answer; a prompt counted once per answer; the
//! usage chunk sent unasked.

use serde_json::{Value, json};

use crate::rig::{CACHED, CHAT, Rig, TEXT, least, with};

/// Prompt, cached and completion tokens of `patch`, the same in both modes.
async fn check(path: &str, patch: Value, prompts: usize, cached: usize, completion: usize) {
    let rig = Rig::saying(&["ok ", "then", "END"]);
    let body = with(&least(path), &patch);
    let (status, answer) = rig.post(path, &body).await;
    assert_eq!(status, 200, "{answer}");
    let prompt = rig.asked()[0].tokens.len() * prompts;
    let expected = json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens_details": {"reasoning_tokens": 0}});
    assert_eq!(answer["usage"], expected, "{path} {patch}");

    let (events, done) = rig.stream(path, &with(&body, &json!({"stream_options": {"include_usage": true}}))).await;
    let last = events.last().expect("a last chunk");
    assert!(done);
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &expected));
    for event in &events[..events.len() - 1] {
        assert_eq!(event.get("usage"), Some(&Value::Null), "every other chunk says null");
    }

    for options in [json!({}), json!({"stream_options": {}}), json!({"stream_options": {"include_usage": false}})] {
        let (events, done) = rig.stream(path, &with(&body, &options)).await;
        assert!(done);
        assert!(events.iter().all(|event| event.get("usage").is_none() && event["choices"] != json!([])));
    }
}

#[tokio::test]
async fn api_5_the_end_token_counts() {
    check(CHAT, json!({}), 1, CACHED, 4).await;
    check(TEXT, json!({}), 1, CACHED, 4).await;
}

#[tokio::test]
async fn api_5_at_the_limit() {
    check(CHAT, json!({"max_tokens": 2}), 1, CACHED, 2).await;
}

#[tokio::test]
async fn api_5_cut_by_a_stop_string() {
    check(CHAT, json!({"stop": "the"}), 1, CACHED, 2).await;
}

#[tokio::test]
async fn api_5_a_prompt_counts_once_for_all_its_answers() {
    check(TEXT, json!({"n": 3}), 1, CACHED, 12).await;
    check(TEXT, json!({"n": 2, "prompt": ["hello", "other"]}), 2, 2 * CACHED, 16).await;
}
