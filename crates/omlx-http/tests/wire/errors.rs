//! Every error has OpenAI's shape and the right status.

use std::path::Path;

use axum::body::Body;
use axum::http::{Request, header};
use omlx_http::Config;
use serde_json::{Value, json};

use crate::rig::{CHAT, MODEL, Parts, Rig, TEXT, least, post, read, with};

/// The request gives `status` and `code`, in OpenAI's shape; gives the message.
async fn check(rig: &Rig, request: Request<Body>, status: u16, code: &str) -> String {
    let (found, _, body) = read(rig.send(request).await).await;
    let answer: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("not JSON: {body}"));
    assert_eq!((found, answer["error"]["code"].as_str()), (status, Some(code)), "{answer}");
    let mut keys: Vec<_> = answer["error"].as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(
        (keys, answer.as_object().map(serde_json::Map::len)),
        (vec!["code", "message", "param", "type"], Some(1))
    );
    answer["error"]["message"].as_str().expect("a message").to_owned()
}

fn raw(kind: Option<&str>, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(CHAT);
    let request = match kind {
        Some(kind) => request.header(header::CONTENT_TYPE, kind),
        None => request,
    };
    request.body(body.into()).expect("a request")
}

/// A body that says it is too large is refused before it comes.
#[tokio::test]
async fn a_length_beyond_the_limit_is_not_waited_for() {
    let rig = Rig::saying(&["ok"]);
    let waits = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let request =
        Request::post(CHAT).header("content-type", "application/json").header("content-length", "1000000000000");
    let (status, _, body) = read(rig.send(request.body(waits).unwrap()).await).await;
    assert_eq!(status, 413, "{body}");
}

/// A name that is no text is a model that does not exist, in the API's own shape.
#[tokio::test]
async fn a_name_that_is_no_text() {
    let (status, answer) = Rig::saying(&["ok"]).get("/v1/models/%ff").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (404, Some("model_not_found")));
}

#[tokio::test]
async fn bodies() {
    let rig = Rig::saying(&["ok "]);
    let json = Some("application/json");
    for bad in ["", "{", "nul", "{\"a\":1}}", "{\"a\":NaN}", "{\"temperature\":1e999}"] {
        check(&rig, raw(json, bad), 400, "invalid_json").await;
    }
    check(&rig, raw(json, "[".repeat(100_000)), 400, "invalid_json").await;
    check(&rig, raw(json, vec![0xff, 0xfe]), 400, "invalid_json").await;
    for bad in ["[]", "5", "null", "\"x\""] {
        check(&rig, raw(json, bad), 400, "invalid_json").await;
    }
    check(&rig, raw(json, "{}"), 400, "missing_required_parameter").await;
}

#[tokio::test]
async fn content_types() {
    let rig = Rig::saying(&["ok "]);
    let body = || least(CHAT).to_string();
    for bad in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data; boundary=json"),
    ] {
        check(&rig, raw(bad, body()), 415, "unsupported_media_type").await;
    }
    for good in ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"]
    {
        let (status, ..) = read(rig.send(raw(Some(good), body())).await).await;
        assert_eq!(status, 200, "{good}");
    }
}

/// Seen to fail: taken for JSON, and called no JSON.
#[tokio::test]
async fn a_compressed_body() {
    let rig = Rig::saying(&["ok "]);
    for (coding, status) in [("gzip", 415), ("br, gzip", 415), ("identity", 200), ("", 200)] {
        let mut request = post(CHAT, &least(CHAT));
        request.headers_mut().insert("content-encoding", coding.parse().unwrap());
        let (found, _, body) = read(rig.send(request).await).await;
        assert_eq!(found, status, "{coding:?}: {body}");
        assert!(status == 200 || body.contains(coding) && body.contains("unsupported_content_encoding"), "{body}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit() {
    let config = Config { body_bytes: 200, ..Config::default() };
    let rig = Rig::new(&["ok "], Parts { config, ..Parts::default() });
    let long = with(&least(CHAT), &json!({"user": "x".repeat(300)}));
    let message = check(&rig, post(CHAT, &long), 413, "body_too_large").await;
    assert!(message.contains("200"), "{message}");
    assert_eq!(rig.post(CHAT, &least(CHAT)).await.0, 200);
}

/// Many small parts take fifty times their bytes in memory; many characters in a text do not.
#[tokio::test]
async fn a_body_of_too_many_parts() {
    let rig = Rig::saying(&["ok "]);
    let many = (1 << 17) + 1;
    for (parts, what) in [
        (vec![json!({}); many], "objects"),
        (vec![json!([]); many], "lists"),
        (vec![json!({"a": 1}); many / 2 + 1], "fields"),
        (vec![json!(1); (1 << 21) + 2], "values"),
    ] {
        let message =
            check(&rig, post(CHAT, &with(&least(CHAT), &json!({"nobody": parts}))), 413, "body_too_large").await;
        assert!(message.contains(what), "{message}");
    }
    let text = "{[:,\\\"}]".repeat(many);
    for allowed in
        [json!({"nobody": text}), json!({"nobody": vec![7; 1 << 20]}), json!({"nobody": vec![json!([]); 1000]})]
    {
        let (status, _, body) = read(rig.send(post(CHAT, &with(&least(CHAT), &allowed))).await).await;
        assert_eq!(status, 200, "{}", &body[..200.min(body.len())]);
    }
}

fn to(method: &str, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).body(Body::empty()).expect("a request")
}

#[tokio::test]
async fn an_unknown_route_is_told_which_there_are() {
    let rig = Rig::saying(&["ok "]);
    for (method, path) in
        [("GET", "/"), ("GET", "/v1"), ("GET", "/v1/"), ("POST", "/v1/embeddings"), ("GET", "/v1/chat/completions/x")]
    {
        let message = check(&rig, to(method, path), 404, "unknown_url").await;
        assert!(message.starts_with(&format!("there is no route {method} {path}; there are ")), "{message}");
        for route in
            ["GET /v1/models, ", "POST /v1/chat/completions", "POST /v1/completions", "GET /health", "/metrics"]
        {
            assert!(message.contains(route), "{message}");
        }
    }
    let message = check(&rig, to("GET", &format!("/{}", "x".repeat(5000))), 404, "unknown_url").await;
    assert!(message.len() < 400, "{message}");
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_one() {
    let rig = Rig::saying(&["ok "]);
    for (method, path, allowed) in [
        ("GET", CHAT, "POST"),
        ("DELETE", TEXT, "POST"),
        ("POST", "/v1/models", "GET"),
        ("PUT", "/v1/models/org/tiny", "GET"),
        ("POST", "/health", "GET"),
        ("POST", "/metrics", "GET"),
        ("POST", "/api/status", "GET"),
        ("OPTIONS", CHAT, "POST"),
    ] {
        let message = check(&rig, to(method, path), 405, "method_not_allowed").await;
        assert_eq!(message, format!("{path} does not take {method}; send {allowed}"));
        let (_, headers, _) = read(rig.send(to(method, path)).await).await;
        let allow = headers.get(header::ALLOW).and_then(|allow| allow.to_str().ok()).unwrap_or("no header");
        assert!(allow.split(',').any(|one| one == allowed), "{method} {path}: {allow}");
    }
}

#[tokio::test]
async fn models_that_do_not_open() {
    let rig = Rig::saying(&["ok "]);
    for path in [CHAT, TEXT] {
        let named = |name: &str| post(path, &with(&least(path), &json!({"model": name})));
        let message = check(&rig, named("gpt-4"), 404, "model_not_found").await;
        assert!(message.contains("gpt-4") && message.contains(MODEL) && !message.contains("half"), "{message}");
        let message = check(&rig, named("half"), 409, "model_unusable").await;
        assert!(message.contains("model-2.safetensors is missing"), "{message}");
        let message = check(&rig, named("twin"), 400, "model_ambiguous").await;
        assert!(message.contains("a/twin, b/twin"), "{message}");
        check(&rig, named("huge"), 503, "no_memory").await;
        check(&rig, named("vast"), 507, "no_memory").await;
    }
}

/// What may change is asked again later, and what cannot is not: by any client that reads headers, and by OpenAI's, which asks again
/// unasked.
#[tokio::test]
async fn who_is_told_to_come_again() {
    let rig = Rig::saying(&["ok "]);
    for (model, status, later, unasked) in [("huge", 503, Some("5"), None), ("vast", 507, None, Some("false"))] {
        let (found, headers, answer) = rig.raw(CHAT, &with(&least(CHAT), &json!({"model": model}))).await;
        let header = |name: &str| headers.get(name).map(|value| value.to_str().expect("ASCII"));
        assert_eq!((found, header("retry-after"), header("x-should-retry")), (status, later, unasked), "{answer}");
    }
}

#[tokio::test]
async fn a_full_mailbox_is_503_at_once() {
    let (rig, _mailbox, _) = Rig::unmanned(&["ok "], &Parts { depth: 2, ..Parts::default() });
    for stream in [false, true] {
        let body = with(&least(CHAT), &json!({"n": 3, "stream": stream}));
        let (status, headers, answer) = rig.raw(CHAT, &body).await;
        assert_eq!((status, headers.get("retry-after").is_some()), (503, true), "{answer}");
        assert!(answer.contains("server_busy") && answer.contains("as many waiting requests as it takes"), "{answer}");
        // Refused as a whole: the two answers that had room are cancelled. They still lie in the mailbox of a dead-slow
        // engine, so the next request is refused too.
        assert_eq!(rig.raw(CHAT, &least(CHAT)).await.0, 503);
    }
}

#[tokio::test]
async fn mod_3_no_chat_template() {
    let change = |folder: &Path| {
        let path = folder.join("tokenizer_config.json");
        let text = std::fs::read_to_string(&path).expect("a file");
        std::fs::write(&path, text.replace("chat_template", "no_template")).expect("written");
    };
    let rig = Rig::new(&["ok "], Parts { change, ..Parts::default() });
    let message = check(&rig, post(CHAT, &least(CHAT)), 400, "no_chat_template").await;
    assert!(message.contains("chat template"), "{message}");
    assert_eq!(rig.post(TEXT, &least(TEXT)).await.0, 200, "completions still work");
}

#[tokio::test]
async fn mod_3_a_template_that_refuses() {
    let change = |folder: &Path| {
        let path = folder.join("tokenizer_config.json");
        let text = std::fs::read_to_string(&path).expect("a file");
        std::fs::write(&path, text.replace("<go>\"", "{{ raise_exception('no system role here') }}\""))
            .expect("written");
    };
    let rig = Rig::new(&["ok "], Parts { change, ..Parts::default() });
    let message = check(&rig, post(CHAT, &least(CHAT)), 400, "chat_template_failed").await;
    assert!(message.contains("no system role here"), "{message}");
}
