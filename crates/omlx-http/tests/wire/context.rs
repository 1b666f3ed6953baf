//! API-8: a prompt over the context is recognisable, and told before any stream begins.

use serde_json::{Value, json};

use crate::rig::{CHAT, CONTEXT, Parts, Rig, TEXT, least, texts, with};

#[tokio::test]
async fn api_8_a_prompt_over_the_context() {
    let rig = Rig::saying(&["ok "]);
    for tokens in [CONTEXT, 80] {
        for stream in [false, true] {
            let ids: Vec<u32> = vec![97; tokens];
            let (status, _, body) = rig.raw(TEXT, &with(&least(TEXT), &json!({"prompt": ids, "stream": stream}))).await;
            let answer: Value = serde_json::from_str(&body).expect("JSON and no stream");
            let error = &answer["error"];
            assert_eq!((status, error["type"].as_str()), (400, Some("invalid_request_error")));
            assert_eq!(
                (error["code"].as_str(), error["param"].as_str()),
                (Some("context_length_exceeded"), Some("prompt"))
            );
            let message = error["message"].as_str().expect("text");
            assert!(message.contains(&tokens.to_string()) && message.contains("64"), "{message}");
        }
    }
    let long = json!({"messages": [{"role": "user", "content": "x".repeat(80)}], "stream": true});
    let (status, answer) = rig.post(CHAT, &with(&least(CHAT), &long)).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (400, Some("context_length_exceeded")));
    assert!(rig.asked().is_empty());
}

#[tokio::test]
async fn api_8_prompt_and_limit_over_the_context_are_served_up_to_it() {
    let rig = Rig::saying(&["ok "]);
    let ids: Vec<u32> = vec![97; 60];
    let body = with(&least(TEXT), &json!({"prompt": ids, "max_tokens": 10, "ignore_eos": true}));
    let (status, answer) = rig.post(TEXT, &body).await;
    assert_eq!((status, texts(&answer)), (200, vec!["ok zz".to_owned()]), "end token and text of 4 tokens");
    assert_eq!((answer["choices"][0]["finish_reason"].as_str(), rig.asked()[0].limit), (Some("length"), 4));
}

/// A prompt that cannot fit is refused before it is encoded: 15 MiB of it would take gigabytes and a minute.
#[tokio::test]
async fn api_8_a_prompt_that_cannot_fit_is_not_even_read() {
    let rig = Rig::saying(&["ok "]);
    let long = "7".repeat(15 << 20);
    for (path, body, param) in [
        (TEXT, json!({"prompt": long}), "prompt"),
        (CHAT, json!({"messages": [{"role": "user", "content": long}]}), "messages"),
    ] {
        let (status, answer) = rig.post(path, &with(&least(path), &body)).await;
        let error = &answer["error"];
        assert_eq!((status, error["code"].as_str()), (400, Some("context_length_exceeded")), "{path}");
        assert_eq!(error["param"], param);
        assert!(error["message"].as_str().expect("text").contains("at least"), "{error}");
    }
    assert!(rig.asked().is_empty());
}

/// API-8, third case: a client that reads "context" deletes its history, which would not make the server's memory larger.
#[tokio::test]
async fn api_8_too_little_memory_is_no_matter_of_context() {
    let rig = Rig::new(&["ok "], Parts { capacity: 40, ..Parts::default() });
    let far = "7".repeat(50);
    for stream in [false, true] {
        for (path, body, tokens) in [
            (TEXT, json!({"prompt": vec![97; 40]}), "40 tokens"),
            (TEXT, json!({"prompt": vec![97; 63]}), "63 tokens"),
            (TEXT, json!({"prompt": far}), "50 tokens"),
            (CHAT, json!({"messages": [{"role": "user", "content": far}]}), "tokens"),
        ] {
            let body = with(&with(&least(path), &body), &json!({"stream": stream}));
            let (status, head, answer) = rig.raw(path, &body).await;
            let answer: Value = serde_json::from_str(&answer).expect("JSON and no stream");
            let error = &answer["error"];
            assert_eq!((status, &error["code"]), (507, &json!("no_memory")), "{path} {body}");
            let message = error["message"].as_str().expect("text");
            assert!(message.contains(tokens) && message.contains("40"), "{message}");
            assert!(!message.contains("context") && !message.contains("shorten"), "{message}");
            assert_eq!(head.get("retry-after"), None, "asking again later changes nothing");
        }
        let over = with(&least(TEXT), &json!({"prompt": vec![97; 64], "stream": stream}));
        let (status, _, answer) = rig.raw(TEXT, &over).await;
        assert_eq!(status, 400, "over the context too, and that is the answer: {answer}");
    }
    let fits = with(&least(TEXT), &json!({"prompt": vec![97; 36], "max_tokens": 10, "ignore_eos": true}));
    assert_eq!((rig.post(TEXT, &fits).await.0, rig.asked()[0].limit), (200, 4), "up to what memory holds");
}

/// Between what memory holds and the context lies what a text has at least; what it really has decides. Seen to fail, as 507 with
/// `no_memory`: a text given up as soon as memory was certain to be too small for it.
#[tokio::test]
async fn api_8_a_prompt_over_both_is_over_the_context() {
    // One entry of 16 bytes, so that a text has at least a sixteenth of its bytes in tokens.
    let rig = Rig::new(&["0123456789abcdef"], Parts { capacity: 4, ..Parts::default() });
    for (bytes, status, code) in [
        (CONTEXT + 16, 400, "context_length_exceeded"),
        (CONTEXT, 400, "context_length_exceeded"),
        (40, 507, "no_memory"),
    ] {
        let text = "7".repeat(bytes);
        for (path, body) in [
            (TEXT, json!({"prompt": text})),
            (TEXT, json!({"prompt": [text, text]})),
            (CHAT, json!({"messages": [{"role": "user", "content": text}]})),
        ] {
            let (found, answer) = rig.post(path, &with(&least(path), &body)).await;
            let error = &answer["error"];
            assert_eq!((found, error["code"].as_str()), (status, Some(code)), "{path}, {bytes} bytes: {error}");
        }
    }
}

#[tokio::test]
async fn one_long_prompt_refuses_the_list() {
    let rig = Rig::saying(&["ok "]);
    let (status, answer) = rig.post(TEXT, &with(&least(TEXT), &json!({"prompt": [vec![97; 9], vec![97; 99]]}))).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (400, Some("context_length_exceeded")));
    assert!(rig.asked().is_empty());
}
