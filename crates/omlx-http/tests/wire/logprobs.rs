//! API-6: log-probabilities in the shapes of both routes.
//!
//! Faults planted and seen: the token's lossy text in place of its bytes; offsets counted in bytes.

use serde_json::{Value, json};

use crate::rig::{CHAT, Rig, TEXT, least, with};

const SCRIPT: [&[u8]; 4] = [b"ok ", &[0xc3], &[0xa9], b"!!"];

#[tokio::test]
async fn api_6_chat() {
    let rig = Rig::saying(&SCRIPT);
    let body = with(&least(CHAT), &json!({"logprobs": true, "top_logprobs": 2, "max_tokens": 4}));
    let (status, answer) = rig.post(CHAT, &body).await;
    assert_eq!(status, 200, "{answer}");
    let entry = |token: &str, bytes: &[u8]| {
        json!({"token": token, "logprob": -0.5, "bytes": bytes, "top_logprobs": [
        {"token": token, "logprob": -0.5, "bytes": bytes}, {"token": "a", "logprob": -1.5, "bytes": [97]}]})
    };
    let expected = json!([entry("ok ", b"ok "), entry("\\xc3", &[0xc3]), entry("\\xa9", &[0xa9]), entry("!!", b"!!")]);
    assert_eq!(answer["choices"][0]["logprobs"]["content"], expected);

    let (events, _) = rig.stream(CHAT, &body).await;
    let streamed: Vec<Value> = events
        .iter()
        .filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array())
        .flatten()
        .cloned()
        .collect();
    assert_eq!(json!(streamed), expected, "the same entries, streamed");
}

#[tokio::test]
async fn api_6_chat_combinations() {
    let rig = Rig::saying(&SCRIPT);
    let (status, answer) = rig.post(CHAT, &with(&least(CHAT), &json!({"logprobs": true}))).await;
    assert_eq!((status, &answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]), (200, &json!([])));
    assert_eq!(rig.asked()[0].logprobs, Some(0));
    for off in [json!({"logprobs": false}), json!({"logprobs": false, "top_logprobs": 0})] {
        let (_, answer) = rig.post(CHAT, &with(&least(CHAT), &off)).await;
        assert_eq!((&answer["choices"][0]["logprobs"], rig.asked()[0].logprobs), (&Value::Null, None));
    }
    for bad in [
        json!({"top_logprobs": 3}),
        json!({"logprobs": false, "top_logprobs": 3}),
        json!({"logprobs": true, "top_logprobs": 21}),
        json!({"logprobs": true, "top_logprobs": -1}),
    ] {
        let (status, answer) = rig.post(CHAT, &with(&least(CHAT), &bad)).await;
        assert_eq!((status, answer["error"]["param"].as_str()), (400, Some("top_logprobs")), "{bad}");
    }
}

#[tokio::test]
async fn api_6_completions() {
    let rig = Rig::saying(&SCRIPT);
    let (status, answer) = rig.post(TEXT, &with(&least(TEXT), &json!({"logprobs": 2}))).await;
    assert_eq!(status, 200, "{answer}");
    let top = |token: &str| json!({token: -0.5, "a": -1.5});
    let expected = json!({"tokens": ["ok ", "bytes:\\xc3", "bytes:\\xa9", "!!"], "token_logprobs": [-0.5, -0.5, -0.5, -0.5],
        "top_logprobs": [top("ok "), top("bytes:\\xc3"), top("bytes:\\xa9"), top("!!")], "text_offset": [0, 3, 4, 4]});
    assert_eq!(answer["choices"][0]["logprobs"], expected);
    let (_, answer) = rig.post(TEXT, &with(&least(TEXT), &json!({"logprobs": 0, "max_tokens": 1}))).await;
    assert_eq!(answer["choices"][0]["logprobs"]["top_logprobs"], json!([{"ok ": -0.5}]), "the chosen token always");
}

#[tokio::test]
async fn api_6_the_end_token_has_no_entry() {
    let rig = Rig::saying(&["a", "<end>", "b"]);
    let (_, answer) = rig.post(CHAT, &with(&least(CHAT), &json!({"logprobs": true}))).await;
    assert_eq!(answer["choices"][0]["logprobs"]["content"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn api_6_minus_infinity_is_a_number() {
    let act = Box::new(|_: &omlx_api::Generate, reply: omlx_api::Reply| {
        reply.token(97, Some(omlx_api::Logprobs { chosen: f32::NEG_INFINITY, top: vec![] }));
        reply.done(omlx_api::Finish::Stop, omlx_api::Usage::default());
    });
    let rig = Rig::new(&["ok "], crate::rig::Parts { act: Some(act), ..crate::rig::Parts::default() });
    let (_, answer) = rig.post(CHAT, &with(&least(CHAT), &json!({"logprobs": true}))).await;
    assert_eq!(answer["choices"][0]["logprobs"]["content"][0]["logprob"], -9999.0);
}
