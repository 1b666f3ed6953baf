//! One line of the log for every request that is over, with its numbers and without a word of what was said.
//!
//! Faults seen to be caught: no line for a stream, a line before a stream has ended, the prompt counted once per answer, a line for
//! each look at `/health`.

use std::io;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use omlx_api::{Fault, Generate, Reply};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::rig::{CACHED, CHAT, MODEL, Parts, Rig, TEXT, least, post, read, with};

/// What has been logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Collects what this thread logs at info and above, as the server's own log does.
    fn collect() -> (Log, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log.clone())
            .with_ansi(false)
            .without_time()
            .with_max_level(tracing::Level::INFO)
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines since the last look.
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().expect("no panic"))).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

fn holds(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "{part} is not in: {line}");
    }
}

#[tokio::test]
async fn an_answer_is_one_line() {
    let (log, _guard) = Log::collect();
    let rig = Rig::saying(&["a", "b", "c"]);
    let (_, answer) = rig.post(TEXT, &with(&least(TEXT), &json!({"model": "tiny", "n": 2}))).await;
    let usage = |name: &str| answer["usage"][name].as_u64().unwrap();
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let numbers = [
        format!("prompt={} ", usage("prompt_tokens")),
        format!("cached={CACHED} "),
        format!("tokens={} ", usage("completion_tokens")),
        format!("model=\"{MODEL}\""),
    ];
    holds(&lines[0], &numbers.each_ref().map(String::as_str));
    holds(&lines[0], &["id=\"", "method=POST", "path=\"/v1/completions\"", "status=200", "finish=\"stop\""]);
    holds(&lines[0], &["ttft_ms=", " ms=", "tok_s="]);
    assert!(!lines[0].contains("hello"), "{}", lines[0]);
}

#[tokio::test]
async fn a_stream_is_one_line_when_it_is_over() {
    let (log, _guard) = Log::collect();
    let rig = Rig::saying(&["a", "b", "c"]);
    let response = rig.send(post(CHAT, &with(&least(CHAT), &json!({"stream": true})))).await;
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    assert_eq!(log.lines().len(), 0, "it has not been sent yet");
    read(response).await;
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    holds(&lines[0], &[&id, "status=200", "tokens=4 ", "finish=\"stop\""]);
    assert!(!lines[0].contains("end=") && !lines[0].contains("error="), "{}", lines[0]);
}

#[tokio::test]
async fn a_client_that_leaves_is_one_line() {
    let (log, _guard) = Log::collect();
    let mut open = Vec::new();
    let act = move |_: &Generate, reply: Reply| {
        reply.token(u32::from(b'a'), None);
        open.push(reply);
    };
    let rig = Rig::new(&["a"], Parts { act: Some(Box::new(act)), ..Parts::default() });
    let mut body = rig.send(post(TEXT, &with(&least(TEXT), &json!({"stream": true})))).await.into_body();
    body.frame().await.expect("a first event").expect("whole");
    drop(body);
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    // The status had gone out before. Seen to fail: nothing but `finish` told it from an answer that went well.
    holds(&lines[0], &["status=200", "tokens=1 ", "finish=\"abort\"", "end=\"cancelled\""]);
    // before there is a status
    let asking = rig.send(post(TEXT, &least(TEXT)));
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), asking).await.is_err());
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    holds(&lines[0], &["status=499", "finish=\"abort\"", "end=\"cancelled\""]);
}

/// Seen to fail: a line without an error beside its status of 200.
#[tokio::test]
async fn a_stream_that_breaks_off_says_so() {
    let (log, _guard) = Log::collect();
    let act = |_: &Generate, reply: Reply| {
        reply.token(u32::from(b'a'), None);
        reply.fail(Fault::Step { reason: "device lost".to_owned() });
    };
    let rig = Rig::new(&["a"], Parts { act: Some(Box::new(act)), ..Parts::default() });
    read(rig.send(post(TEXT, &with(&least(TEXT), &json!({"stream": true})))).await).await;
    let lines = log.lines();
    let line = lines.iter().find(|line| line.contains("answered")).expect("a line");
    holds(line, &["status=200", "tokens=1 ", "end=\"failed\"", "error=\"step_failed\""]);
}

/// Whatever is wrong with a request, whoever reads the log sees which model it was meant for. Seen to fail: without.
#[tokio::test]
async fn a_refusal_names_the_model() {
    let (log, _guard) = Log::collect();
    let rig = Rig::saying(&["a"]);
    let long = "m".repeat(300);
    for (patch, status, model) in [
        (json!({"temperature": 9}), 400, "tiny"),
        (json!({"prompt": null}), 400, "tiny"),
        (json!({"tools": [{}]}), 400, "tiny"),
        (json!({"prompt": vec![97; 99]}), 400, MODEL),
        (json!({"model": "huge"}), 503, "huge"),
        (json!({"model": "a\nb"}), 404, "a\\nb"),
        (json!({"model": long}), 404, &format!("{}...", &long[..100])),
    ] {
        let body = with(&with(&least(TEXT), &json!({"model": "tiny"})), &patch);
        let (found, answer) = rig.post(TEXT, &body).await;
        assert_eq!(found, status, "{answer}");
        let lines = log.lines();
        let line = lines.iter().find(|line| line.contains("answered")).expect("a line");
        holds(line, &[&format!("model=\"{model}\""), &format!("status={status}"), "end=\"failed\""]);
    }
    // and one without a model is no model's
    let (found, _) = rig.post(TEXT, &json!({"model": 7, "prompt": "a"})).await;
    assert!(found == 400 && !log.lines().concat().contains("model="));
}

/// The head is all that is asked for, and the body that is dropped was wanted by nobody.
#[tokio::test]
async fn a_head_alone_is_a_whole_answer() {
    let (log, _guard) = Log::collect();
    let rig = Rig::saying(&["a"]);
    for path in ["/v1/models", "/nowhere"] {
        drop(rig.send(Request::head(path).body(Body::empty()).unwrap()).await);
        assert!(!log.lines().concat().contains("cancelled"), "{path}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_a_short_line() {
    let (log, _guard) = Log::collect();
    let rig = Rig::saying(&["a"]);
    rig.post(CHAT, &with(&least(CHAT), &json!({"model": "gpt-4"}))).await;
    rig.get("/v1/models").await;
    rig.get("/nowhere").await;
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    holds(&lines[0], &["status=404", "model=\"gpt-4\"", "end=\"failed\"", "error=\"model_not_found\""]);
    holds(&lines[1], &["status=200", "path=\"/v1/models\""]);
    holds(&lines[2], &["status=404", "error=\"unknown_url\""]);
    assert!(!lines[0].contains("finish") && !lines[1].contains("error") && !lines[1].contains("end="), "{lines:?}");
    // supervisors ask all the time
    rig.get("/health").await;
    read(rig.send(Request::get("/metrics").body(Body::empty()).unwrap()).await).await;
    assert_eq!(log.lines(), Vec::<String>::new());
}
