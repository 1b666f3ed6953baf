//! What dashboards read, and the name that every request gets.
//!
//! Faults seen to be caught: an abort counted as a success, the first token counted as a gap between two, the alias as a model
//! of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use omlx_api::{Fault, Generate, Reply, Snapshot};
use omlx_http::{Config, Memory};
use serde_json::json;

use crate::rig::{CACHED, CHAT, MODEL, Parts, Rig, Sees, TEXT, least, post, read, with};

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

/// Queue, cache and what gives way, as the engine has published it; what stands in the mailbox waits too.
///
/// Seen to fail: free blocks shown as used; requests in the mailbox left out; one of the two names of the cache's use forgotten.
#[tokio::test]
async fn queue_and_cache_are_shown_as_the_engine_says() {
    let (rig, mailbox, _) = Rig::unmanned(&["a"], &Parts::default());
    let model = of_model("");
    let names = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc"];
    let read = async || {
        let mut found = Vec::new();
        for name in names {
            found.push(value(&rig, &format!("vllm:{name}"), &model).await.expect("it is there"));
        }
        found
    };
    assert_eq!(read().await, [0.0, 0.0, 0.0, 0.0], "before the engine has said anything");
    mailbox.publish(Snapshot { running: 3, waiting: 5, blocks_free: 6, blocks: 8, parked: 7, ..Snapshot::default() });
    assert_eq!(read().await, [3.0, 5.0, 0.25, 0.25]);
    assert_eq!(value(&rig, "vllm:num_preemptions_total", &model).await, Some(7.0));
    // A request that the engine has not taken yet.
    let asking = rig.send(post(TEXT, &least(TEXT)));
    tokio::select! {
        _ = asking => panic!("nobody answers"),
        () = async { while read().await[1] < 6.0 { tokio::time::sleep(Duration::from_millis(5)).await } } => {}
    }
    assert_eq!(read().await[0], 3.0);
    // Whatever an engine says, a share is a share.
    mailbox.publish(Snapshot { blocks_free: 9, blocks: 8, ..Snapshot::default() });
    assert_eq!(read().await[2..], [0.0, 0.0]);
}

pub(crate) const MEMORY: Memory = Memory {
    tier: "safe",
    most_bytes: 2000,
    spare_bytes: 50,
    pressure: "soft",
    limit_bytes: 1000,
    used_bytes: 960,
    headroom_bytes: 40,
    promised_bytes: 900,
    room_bytes: 30,
    given_back_bytes: 500,
    refused: 3,
    parked: 2,
};

#[tokio::test]
async fn the_memory_guard_is_shown_where_there_is_one() {
    let rig = Rig::saying(&["a"]);
    let all = async |rig: &Rig| read(rig.send(Request::get("/metrics").body(Body::empty()).unwrap()).await).await.2;
    assert!(!all(&rig).await.contains("omlx:memory"));
    assert_eq!(rig.get("/api/status").await.1["memory"], json!(null));

    let guard = Arc::new(Mutex::new(MEMORY));
    let seen = Arc::clone(&guard);
    let memory: Box<Sees> = Box::new(move || Some(*seen.lock().unwrap()));
    let rig = Rig::new(&["a"], Parts { memory: Some(memory), ..Parts::default() });
    let text = all(&rig).await;
    let lines = [
        "omlx:memory_guard_info{tier=\"safe\"} 1",
        "omlx:memory_pressure 1",
        "omlx:memory_limit_bytes 1000",
        "omlx:memory_used_bytes 960",
        "omlx:memory_headroom_bytes 40",
        "omlx:memory_promised_bytes 900",
        "omlx:memory_room_bytes 30",
        "omlx:memory_given_back_bytes_total 500",
        "omlx:memory_refused_total 3",
        "omlx:memory_parked_total 2",
    ];
    for line in lines {
        assert!(text.lines().any(|l| l == line), "no {line} in {text}");
    }
    let status = rig.get("/api/status").await.1;
    assert_eq!(status["memory"], serde_json::to_value(MEMORY).unwrap());
    *guard.lock().unwrap() = Memory { pressure: "hard", refused: 4, ..MEMORY };
    let text = all(&rig).await;
    assert!(text.contains("omlx:memory_pressure 2\n") && text.contains("omlx:memory_refused_total 4\n"), "{text}");
    assert_eq!(rig.get("/api/status").await.1["memory"]["pressure"], "hard");
}
