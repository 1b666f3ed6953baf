//! SEC-1: the key opens everything but `/health`, and shows up nowhere.
//!
//! Faults planted and seen: a comparison that stops at the shorter key; the guard left off the fallback route.

use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use omlx_http::Config;

use crate::rig::{CHAT, Parts, Rig, least, read};

const KEY: &str = "k-test-1";

fn locked() -> Rig {
    let config = Config { api_key: Some(KEY.to_owned()), ..Config::default() };
    Rig::new(&["ok "], Parts { config, ..Parts::default() })
}

fn request(method: &str, path: &str, headers: &[(&'static str, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
    }
    request.body(Body::from(least(CHAT).to_string())).expect("a request")
}

#[tokio::test]
async fn sec_1_the_key_opens() {
    let rig = locked();
    for headers in [
        &[("authorization", "Bearer k-test-1")] as &[_],
        &[("authorization", "bearer k-test-1")],
        &[("x-api-key", "k-test-1")],
        &[("authorization", "Bearer other"), ("x-api-key", "k-test-1")],
    ] {
        let (status, _, body) = read(rig.send(request("POST", CHAT, headers)).await).await;
        assert_eq!(status, 200, "{body}");
    }
}

#[tokio::test]
async fn sec_1_anything_else_does_not() {
    let rig = locked();
    let wrong: [&[(&'static str, &str)]; 13] = [
        &[],
        &[("authorization", "Bearer ")],
        &[("authorization", "Bearer")],
        &[("authorization", "k-test-1")],
        &[("authorization", "Basic k-test-1")],
        &[("authorization", "Bearer k-test-1 ")],
        &[("authorization", "Bearer  k-test-1")],
        &[("authorization", "Bearer k-test")],
        &[("authorization", "Bearer k-test-1k-test-1")],
        &[("authorization", "Bearer K-TEST-1")],
        &[("authorization", "Bearer k-test-é")],
        &[("x-api-key", "")],
        &[("x-api-key", "k-test-2")],
    ];
    for headers in wrong {
        for (method, path) in [
            ("POST", CHAT),
            ("POST", "/v1/completions"),
            ("GET", "/v1/models"),
            ("GET", "/v1/models/x"),
            ("HEAD", "/v1/models"),
            ("OPTIONS", CHAT),
            ("GET", "/nowhere"),
            ("DELETE", "/v1/models"),
            ("POST", "/v1/chat/completions?key=k-test-1"),
        ] {
            let (status, answer, body) = read(rig.send(request(method, path, headers)).await).await;
            assert_eq!(status, 401, "{method} {path} {headers:?}");
            assert_eq!(answer[header::WWW_AUTHENTICATE], "Bearer");
            assert!(!body.contains(KEY), "{body}");
            assert!(answer.keys().all(|name| !name.as_str().starts_with("access-control")));
        }
    }
    assert!(rig.asked().is_empty());
}

#[tokio::test]
async fn sec_1_health_needs_no_key_and_errors_are_shaped() {
    let rig = locked();
    assert_eq!(rig.get("/health").await.0, 200);
    let (status, answer) = rig.get("/v1/models").await;
    assert_eq!((status, answer["error"]["code"].as_str()), (401, Some("invalid_api_key")));
}

#[tokio::test]
async fn sec_1_an_empty_key_opens_nothing() {
    let config = Config { api_key: Some(String::new()), ..Config::default() };
    let rig = Rig::new(&["ok "], Parts { config, ..Parts::default() });
    for headers in [&[] as &[_], &[("x-api-key", "")], &[("authorization", "Bearer ")]] {
        assert_eq!(read(rig.send(request("POST", CHAT, headers)).await).await.0, 401);
    }
}

#[test]
fn sec_1_debug_masks_the_key() {
    let config = Config { api_key: Some(KEY.to_owned()), ..Config::default() };
    let shown = format!("{config:?}");
    assert!(!shown.contains(KEY) && shown.contains("***"), "{shown}");
}

#[tokio::test]
async fn sec_1_foreign_host_names_without_a_key() {
    let hosts = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
    let config = Config { hosts: Some(hosts), ..Config::default() };
    let rig = Rig::new(&["ok "], Parts { config, ..Parts::default() });
    let cases: [(&str, u16); 9] = [
        ("localhost", 200),
        ("LocalHost:8000", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        ("evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("", 403),
    ];
    for (host, expected) in cases {
        let (status, ..) = read(rig.send(request("POST", CHAT, &[("host", host)])).await).await;
        assert_eq!(status, expected, "{host:?}");
    }
    assert_eq!(read(rig.send(request("POST", CHAT, &[])).await).await.0, 403);
}
