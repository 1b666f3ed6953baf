//! Streams: their shape, heartbeats, and faults on the way.
//!
//! Faults planted and seen: a new id per chunk; `[DONE]` after an error; a refusal that arrives as status 200.

use std::time::Duration;

use omlx_api::{Fault, Finish, Refusal, Usage};
use omlx_http::Config;
use serde_json::{Value, json};

use crate::rig::{Act, CHAT, Parts, Rig, TEXT, events, least, with};

const USAGE: Usage = Usage { prompt: 3, cached: 0, completion: 1 };

fn acting(config: Config, act: Act) -> Rig {
    Rig::new(&["ok "], Parts { config, act: Some(act), ..Parts::default() })
}

#[tokio::test]
async fn a_chat_stream_word_for_word() {
    let rig = Rig::saying(&["ok ", "then"]);
    let (events, done) = rig.stream(CHAT, &with(&least(CHAT), &json!({"model": "tiny"}))).await;
    assert!(done);
    let choices: Vec<&Value> = events.iter().map(|event| &event["choices"]).collect();
    let choice =
        |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
    let expected = [
        choice(json!({"role": "assistant", "content": ""}), Value::Null),
        choice(json!({"content": "ok "}), Value::Null),
        choice(json!({"content": "then"}), Value::Null),
        choice(json!({}), json!("stop")),
    ];
    assert_eq!(choices, expected.iter().collect::<Vec<_>>());
    for event in &events {
        assert_eq!((&event["id"], &event["created"]), (&events[0]["id"], &events[0]["created"]));
        assert_eq!((&event["model"], &event["object"]), (&json!("tiny"), &json!("chat.completion.chunk")));
    }
    assert!(events[0]["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")));
    let (again, _) = rig.stream(CHAT, &least(CHAT)).await;
    assert_ne!(again[0]["id"], events[0]["id"]);
}

#[tokio::test]
async fn a_completions_stream_word_for_word() {
    let rig = Rig::saying(&["ok "]);
    let (events, done) = rig.stream(TEXT, &with(&least(TEXT), &json!({"echo": true}))).await;
    let choices: Vec<&Value> = events.iter().map(|event| &event["choices"]).collect();
    let choice =
        |text: &str, finish: Value| json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]);
    let expected = [choice("hello", Value::Null), choice("ok ", Value::Null), choice("", json!("stop"))];
    assert_eq!((choices, done), (expected.iter().collect(), true));
    assert!(events.iter().all(|event| event["object"] == "text_completion" && event["id"] == events[0]["id"]));
}

#[tokio::test]
async fn a_whole_chat_answer_word_for_word() {
    let rig = Rig::saying(&["ok "]);
    let (status, mut answer) = rig.post(CHAT, &least(CHAT)).await;
    assert!(answer["id"].take().is_string() && answer["created"].take().as_u64() > Some(1_700_000_000));
    answer["usage"].take();
    let expected = json!({"id": null, "object": "chat.completion", "created": null, "model": "org/tiny", "choices":
        [{"index": 0, "message": {"role": "assistant", "content": "ok "}, "logprobs": null, "finish_reason": "stop"}],
        "usage": null});
    assert_eq!((status, answer), (200, expected));
}

/// An engine that says nothing for a while.
fn slow() -> Act {
    Box::new(|_, reply| {
        std::thread::sleep(Duration::from_millis(200));
        reply.token(u32::from(b'a'), None);
        reply.done(Finish::Stop, USAGE);
    })
}

#[tokio::test]
async fn api_4_heartbeats_are_comments() {
    let config = Config { keep_alive: Some(Duration::from_millis(40)), ..Config::default() };
    let rig = acting(config, slow());
    let (status, _, body) = rig.raw(CHAT, &with(&least(CHAT), &json!({"stream": true}))).await;
    assert_eq!(status, 200);
    assert!(body.contains(": keep-alive\n\n"), "{body}");
    let (events, done) = events(&body);
    assert!(done && events.iter().all(|event| event["id"] == events[0]["id"]));
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
}

#[tokio::test]
async fn api_4_heartbeats_can_be_off() {
    let config = Config { keep_alive: None, ..Config::default() };
    let rig = acting(config, slow());
    let (_, _, body) = rig.raw(CHAT, &with(&least(CHAT), &json!({"stream": true}))).await;
    assert!(body.split("\n\n").all(|event| event.is_empty() || event.starts_with("data: ")), "{body}");
    let (_, _, body) = rig.raw(CHAT, &least(CHAT)).await;
    assert!(body.starts_with('{'), "nothing before a whole answer");
}

#[tokio::test]
async fn api_4_an_error_after_a_heartbeat_is_an_error_object() {
    let config = Config { keep_alive: Some(Duration::from_millis(20)), ..Config::default() };
    let refuse: Act = Box::new(|_, reply| {
        std::thread::sleep(Duration::from_millis(100));
        reply.fail(Fault::Refused(Refusal::Full { waiting: 9 }));
    });
    let (events, done) = acting(config, refuse).stream(CHAT, &least(CHAT)).await;
    assert_eq!((events.last().expect("one")["error"]["code"].as_str(), done), (Some("server_busy"), false));
}

/// `act` gives `status` and `code` as a whole answer and, in a stream, the same status or (`late`) an error object.
async fn fails(act: fn() -> Act, status: u16, code: &str, late: bool) {
    for path in [CHAT, TEXT] {
        let rig = acting(Config::default(), act());
        let (found, answer) = rig.post(path, &least(path)).await;
        assert_eq!((found, answer["error"]["code"].as_str()), (status, Some(code)), "{answer}");
        let rig = acting(Config::default(), act());
        let (found, headers, body) = rig.raw(path, &with(&least(path), &json!({"stream": true}))).await;
        if late {
            let (events, done) = events(&body);
            assert_eq!((found, done), (200, false), "{body}");
            let error = &events.last().expect("an event")["error"];
            assert_eq!((error["code"].as_str(), error["type"].as_str()), (Some(code), Some("server_error")));
        } else {
            assert_eq!(found, status, "{body}");
            assert_eq!(headers.contains_key("retry-after"), status == 503);
        }
    }
}

#[tokio::test]
async fn life_3_the_engine_dies_before_the_first_token() {
    fails(|| Box::new(|_, reply| drop(reply)), 503, "engine_stopped", false).await;
}

#[tokio::test]
async fn life_3_the_engine_dies_in_the_middle() {
    fails(|| Box::new(|_, reply| reply.token(97, None)), 503, "engine_stopped", true).await;
    let broken = || -> Act {
        Box::new(|_, reply| {
            reply.token(97, None);
            reply.fail(Fault::Engine { reason: "device lost".to_owned() });
        })
    };
    fails(broken, 500, "engine_failed", true).await;
}

#[tokio::test]
async fn life_3_the_step_fails_and_the_engine_goes_on() {
    let step = || -> Act { Box::new(|_, reply| reply.fail(Fault::Step { reason: "device lost".to_owned() })) };
    fails(step, 500, "step_failed", false).await;
}

/// Never 500, never a word of shortening; the numbers and when to come again.
#[tokio::test]
async fn life_5_memory_is_short() {
    let refusal = Refusal::Memory { used_bytes: 3 << 30, limit_bytes: 2 << 30, running: 4, waiting: 7 };
    for stream in [false, true] {
        let rig = acting(Config::default(), Box::new(move |_, reply| reply.fail(Fault::Refused(refusal))));
        let (status, headers, body) = rig.raw(CHAT, &with(&least(CHAT), &json!({"stream": stream}))).await;
        assert_eq!((status, headers["retry-after"].to_str().expect("ASCII")), (503, "5"), "{body}");
        let answer: Value = serde_json::from_str(&body).expect("JSON and no stream");
        assert_eq!(answer["error"]["code"], "no_memory");
        assert_eq!(answer["error"]["type"], "server_error");
        let text = answer["error"]["message"].as_str().expect("a text");
        assert!(["3072 MiB", "2048 MiB", "4 requests", "7 waiting"].iter().all(|part| text.contains(part)), "{text}");
        assert!(["context", "shorten", "prompt", "max_tokens"].iter().all(|word| !text.contains(word)), "{text}");
    }
}

#[tokio::test]
async fn life_3_the_engine_thread_panics() {
    let panics = || -> Act { Box::new(|_, _reply| std::panic::resume_unwind(Box::new("gone"))) };
    fails(panics, 503, "engine_stopped", false).await;
    let rig = acting(Config::default(), panics());
    let _ = rig.post(CHAT, &least(CHAT)).await;
    // The thread lets go of its reply first, and of its mailbox a moment later.
    let mut seen = rig.get("/health").await;
    for _ in 0..500 {
        if seen.0 == 503 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        seen = rig.get("/health").await;
    }
    assert_eq!((seen.0, &seen.1["models"][0]["alive"]), (503, &json!(false)));
    let (status, answer) = rig.post(CHAT, &least(CHAT)).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (503, Some("engine_stopped")));
}

#[tokio::test]
async fn refusals_of_the_engine() {
    let refuse = |refusal: Refusal| -> Act { Box::new(move |_, reply| reply.fail(Fault::Refused(refusal))) };
    let cases = [
        (Refusal::TooLong { tokens: 80, context: 64 }, 400, "context_length_exceeded"),
        (Refusal::NeverFits { tokens: 80, most: 64 }, 507, "no_memory"),
        (Refusal::Full { waiting: 3 }, 503, "server_busy"),
        (Refusal::Empty, 400, "invalid_value"),
        (Refusal::UnknownToken { id: 999, vocab: 272 }, 400, "invalid_value"),
    ];
    for (refusal, status, code) in cases {
        for stream in [false, true] {
            let rig = acting(Config::default(), refuse(refusal));
            let (found, _, body) = rig.raw(CHAT, &with(&least(CHAT), &json!({"stream": stream}))).await;
            let answer: Value = serde_json::from_str(&body).expect("JSON and no stream");
            assert_eq!((found, answer["error"]["code"].as_str()), (status, Some(code)), "{answer}");
        }
    }
}
