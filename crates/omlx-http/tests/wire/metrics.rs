//! What dashboards read, and the name that every request gets.
//!
//! Faults seen to be caught: an abort counted as a success, the first token counted as a gap between two, the alias as a model
//! of its own.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use omlx_api::{Fault, Generate, Reply};
use omlx_http::Config;
use serde_json::json;

use crate::rig::{CACHED, CHAT, MODEL, Parts, Rig, TEXT, least, post, read, with};

/// The value of a metric with exactly these labels; none if it is not there.
async fn value(rig: &Rig, name: &str, labels: &str) -> Option<f64> {
    let (status, headers, text) =
        read(rig.send(Request::get("/metrics").body(Body::empty()).expect("a request")).await).await;
    assert_eq!(status, 200);
    let kind = headers["content-type"].to_str().expect("text");
    assert!(kind.starts_with("text/plain"), "{kind}");
    let line = format!("{name}{{{labels}}} ");
    text.lines().find_map(|l| l.strip_prefix(&line)).map(|value| value.parse().expect("a number"))
}

fn of_model(more: &str) -> String {
    format!("{more}model_name=\"{MODEL}\"")
}

#[tokio::test]
async fn answers_are_counted_under_the_full_name() {
    let rig = Rig::saying(&["a", "b", "c"]);
    let (_, answer) = rig.post(TEXT, &with(&least(TEXT), &json!({"model": "tiny"}))).await;
    let (_, _) = rig.stream(CHAT, &least(CHAT)).await;
    let prompt = answer["usage"]["prompt_tokens"].as_f64().unwrap();
    let model = of_model("");
    assert!(value(&rig, "vllm:prompt_tokens_total", &model).await.unwrap() > prompt);
    assert_eq!(value(&rig, "vllm:prefix_cache_hits_total", &model).await, Some(2.0 * CACHED as f64));
    // three letters each and the end token, which is generated though not shown
    assert_eq!(value(&rig, "vllm:generation_tokens_total", &model).await, Some(8.0));
    assert_eq!(value(&rig, "vllm:time_to_first_token_seconds_count", &model).await, Some(2.0));
    assert_eq!(value(&rig, "vllm:inter_token_latency_seconds_count", &model).await, Some(4.0));
    assert_eq!(value(&rig, "vllm:e2e_request_latency_seconds_count", &model).await, Some(2.0));
    let stopped = of_model("finished_reason=\"stop\",");
    assert_eq!(value(&rig, "vllm:request_success_total", &stopped).await, Some(2.0));
    assert_eq!(value(&rig, "vllm:num_requests_running", &model).await, Some(0.0));
    assert_eq!(value(&rig, "omlx:engine_alive", &model).await, Some(1.0));
    assert_eq!(value(&rig, "vllm:prompt_tokens_total", "model_name=\"tiny\"").await, None);
}

#[tokio::test]
async fn lengths_faults_and_clients_that_leave_are_told_apart() {
    let rig = Rig::saying(&["a", "b"]);
    rig.post(TEXT, &with(&least(TEXT), &json!({"max_tokens": 1}))).await;
    rig.post(TEXT, &with(&least(TEXT), &json!({"max_tokens": 0}))).await;
    let length = of_model("finished_reason=\"length\",");
    assert_eq!(value(&rig, "vllm:request_success_total", &length).await, Some(2.0));

    let act = |_: &Generate, reply: Reply| reply.fail(Fault::Unsound { reason: "planted".to_owned() });
    let rig = Rig::new(&["a"], Parts { act: Some(Box::new(act)), ..Parts::default() });
    assert_eq!(rig.post(TEXT, &least(TEXT)).await.0, 500);
    assert_eq!(value(&rig, "omlx:request_failures_total", &of_model("code=\"engine_failed\",")).await, Some(1.0));

    let mut open = Vec::new();
    let act = move |_: &Generate, reply: Reply| {
        reply.token(u32::from(b'a'), None);
        open.push(reply);
    };
    let rig = Rig::new(&["a"], Parts { act: Some(Box::new(act)), ..Parts::default() });
    let response = rig.send(post(TEXT, &with(&least(TEXT), &json!({"stream": true})))).await;
    let mut body = response.into_body();
    body.frame().await.expect("a first event").expect("whole");
    let gone = of_model("finished_reason=\"abort\",");
    assert_eq!(value(&rig, "vllm:request_success_total", &gone).await, None);
    drop(body);
    for _ in 0..100 {
        if value(&rig, "vllm:request_success_total", &gone).await == Some(1.0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the client's leaving was not noticed");
}

#[tokio::test]
async fn a_full_mailbox_counts_as_a_failure() {
    let (rig, _mailbox, _) = Rig::unmanned(&["a"], &Parts { depth: 1, ..Parts::default() });
    let ask = || rig.send(post(TEXT, &least(TEXT)));
    // Nobody answers whichever of the two takes the only place.
    let refused = tokio::select! {
        refused = ask() => refused,
        refused = ask() => refused,
    };
    assert_eq!(refused.status(), 503);
    let counted = value(&rig, "omlx:request_failures_total", &of_model("code=\"server_busy\",")).await;
    assert_eq!(counted, Some(1.0));
}

/// Before any model is asked for, dashboards find the process, and zeros instead of nothing.
///
/// Seen to fail: empty until the first answer.
#[tokio::test]
async fn the_process_and_its_routes_are_there_from_the_start() {
    let rig = Rig::saying(&["a"]);
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert_eq!(value(&rig, "omlx:build_info", &version).await, Some(1.0));
    let (_, _, text) = read(rig.send(Request::get("/metrics").body(Body::empty()).unwrap()).await).await;
    for line in ["omlx:models_known 2\n", "omlx:models_loaded 1\n", "\nomlx:uptime_seconds "] {
        assert!(text.contains(line), "{text}");
    }
    let requests = async |labels: &str| value(&rig, "omlx:http_requests_total", labels).await;
    for route in ["/v1/chat/completions", "/v1/completions"] {
        for status in [200, 400, 500, 503] {
            assert_eq!(requests(&format!("route=\"{route}\",status=\"{status}\"")).await, Some(0.0), "{text}");
        }
    }
    rig.post(CHAT, &least(CHAT)).await;
    rig.post(CHAT, &json!({})).await;
    for path in ["/v1/models/org/tiny", "/v1/models/org%2Ftiny", "/nowhere", "/v1/models/nope", "/v1/models/"] {
        rig.get(path).await;
    }
    for (labels, expected) in [
        ("route=\"/v1/chat/completions\",status=\"200\"", 1.0),
        ("route=\"/v1/chat/completions\",status=\"400\"", 1.0),
        ("route=\"/v1/models/{id}\",status=\"200\"", 2.0),
        ("route=\"/v1/models/{id}\",status=\"404\"", 1.0),
        ("route=\"none\",status=\"404\"", 2.0),
    ] {
        assert_eq!(requests(labels).await, Some(expected), "{labels}");
    }
}

#[tokio::test]
async fn every_request_has_a_name() {
    let rig = Rig::saying(&["a"]);
    let ask = |id: Option<&str>| {
        let mut request = Request::get("/v1/models");
        if let Some(id) = id {
            request = request.header("x-request-id", id);
        }
        request.body(Body::empty()).unwrap()
    };
    let name = async |id| rig.send(ask(id)).await.headers()["x-request-id"].to_str().unwrap().to_owned();
    assert_eq!(name(Some("mine-1")).await, "mine-1");
    let (one, two) = (name(None).await, name(None).await);
    assert!(one != two && one.len() == 16, "{one} {two}");
    let long = "x".repeat(500);
    assert_ne!(name(Some(&long)).await.len(), 500);
    assert_ne!(name(Some("a b")).await, "a b");
}

#[tokio::test]
async fn with_a_key_metrics_are_open_and_status_is_not() {
    let config = Config { api_key: Some("secret".to_owned()), ..Config::default() };
    let rig = Rig::new(&["a"], Parts { config, ..Parts::default() });
    assert_eq!(value(&rig, "omlx:engine_alive", &of_model("")).await, Some(1.0));
    assert_eq!(rig.get("/api/status").await.0, 401);
}

#[tokio::test]
async fn status_shows_engines_and_models() {
    let rig = Rig::saying(&["a"]);
    let (status, body) = rig.get("/api/status").await;
    assert_eq!(status, 200);
    assert_eq!(body["models"][0]["id"], MODEL);
    assert_eq!(body["models"][0]["alive"], true);
    assert_eq!(body["known"].as_array().unwrap().len(), 3);
    assert!(body["known"][2]["trouble"].as_str().unwrap().contains("missing"), "{body}");
}
