//! `/api/memory-guard`: what is shown, what may be set, and by whom.

use axum::body::Body;
use axum::http::{Request, header};
use omlx_http::Config;
use serde_json::{Value, json};

use crate::metrics::MEMORY;
use crate::rig::{Parts, Rig, post, read};

const PATH: &str = "/api/memory-guard";

fn guarded(config: Config) -> Rig {
    Rig::new(&["a"], Parts { config, memory: Some(Box::new(|| Some(MEMORY))), ..Parts::default() })
}

#[tokio::test]
async fn it_shows_what_the_status_shows_and_is_set_in_the_owners_words() {
    let rig = guarded(Config::default());
    assert_eq!(rig.get(PATH).await, (200, json!({"memory": MEMORY})));
    let (status, answer) = rig.post(PATH, &json!({"memory_guard": "safe"})).await;
    assert_eq!((status, &answer["memory"]["tier"], &answer["memory"]["most_bytes"]), (200, &json!("safe"), &json!(7)));
}

#[tokio::test]
async fn what_is_no_limit_is_refused_and_named() {
    let rig = guarded(Config::default());
    for (body, code, says) in [
        (json!({"memory_guard": "bold"}), "invalid_value", "bold is not safe"),
        (json!({"memory_guard": 60}), "invalid_value", "a string, found 60"),
        (json!({"memory_guard": null}), "missing_required_parameter", "`memory_guard` is missing"),
        (json!({"guard": "safe"}), "missing_required_parameter", "`memory_guard` is missing"),
    ] {
        let (status, answer) = rig.post(PATH, &body).await;
        let error = &answer["error"];
        assert_eq!((status, error["code"].as_str()), (400, Some(code)), "{body}: {error}");
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(says)), "{body}: {error}");
    }
    let (_, answer) = rig.post(PATH, &json!({"memory_guard": "bold"})).await;
    assert_eq!(answer["error"]["param"], "memory_guard");
}

#[tokio::test]
async fn a_server_without_a_guard_says_so() {
    let rig = Rig::saying(&["a"]);
    assert_eq!(rig.get(PATH).await, (200, json!({"memory": null})));
    let (status, answer) = rig.post(PATH, &json!({"memory_guard": "safe"})).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (409, Some("memory_guard_off")));
}

/// Pages of other origins can send forms and plain text without asking, so only JSON sets anything; and nothing without the key.
#[tokio::test]
async fn nobody_sets_it_without_the_key_or_by_a_form() {
    let body = json!({"memory_guard": "safe"});
    let rig = guarded(Config { api_key: Some("k-test-1".to_owned()), ..Config::default() });
    assert_eq!(rig.get(PATH).await.0, 401);
    assert_eq!(rig.post(PATH, &body).await.0, 401);
    let mut request = post(PATH, &body);
    request.headers_mut().insert("x-api-key", "k-test-1".parse().expect("a value"));
    assert_eq!(read(rig.send(request).await).await.0, 200);

    let rig = guarded(Config::default());
    let form = Request::post(PATH).header(header::CONTENT_TYPE, "text/plain").body(Body::from(body.to_string()));
    assert_eq!(read(rig.send(form.expect("a request")).await).await.0, 415);
    let other = Request::delete(PATH).body(Body::empty()).expect("a request");
    let (status, _, text) = read(rig.send(other).await).await;
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(status, 405);
    assert!(answer["error"]["message"].as_str().is_some_and(|said| said.ends_with("send GET or POST")), "{answer}");
}
