//! The log as its owner reads it: how each request ended, and what was served when the server stops.

use std::time::Duration;

use omlx_fixtures::{RandomLlama, random_llama};
use serde_json::json;

use crate::client::first_event;
use crate::server::{Server, within};

/// The line of one request.
#[track_caller]
fn line(server: &Server, part: &str) -> String {
    let is = |line: &&str| line.contains("answered") && line.contains(part);
    within(Duration::from_secs(10), || server.output().lines().find(is).map(str::to_owned))
}

/// Seen to fail: a stream that was left, with `status=200` and no other word.
#[test]
fn the_log_says_how_each_ended_and_what_it_came_to() {
    let shelf = tempfile::tempdir().unwrap();
    random_llama(&shelf.path().join("m"), &RandomLlama { context: 65536, ..RandomLlama::default() });
    let mut server = Server::of(shelf.path(), &[]);
    let ask = |more: serde_json::Value| {
        let mut body = json!({"model": "m", "prompt": "a", "max_tokens": 3, "temperature": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.completions(&body)
    };
    ask(json!({})).header("x-request-id", "well").send().ok();
    assert!(!line(&server, "id=\"well\"").contains("end="), "{}", line(&server, "id=\"well\""));
    ask(json!({"temperature": 9})).header("x-request-id", "wrong").send().error(400);
    let wrong = line(&server, "id=\"wrong\"");
    assert!(wrong.contains("model=\"m\"") && wrong.contains("end=\"failed\""), "{wrong}");
    let mut left = ask(json!({"stream": true, "max_tokens": 60000})).header("x-request-id", "left").open();
    first_event(&mut left);
    drop(left);
    let cancelled = line(&server, "id=\"left\"");
    assert!(cancelled.contains("status=200") && cancelled.contains("end=\"cancelled\""), "{cancelled}");
    let mut cut = ask(json!({"stream": true, "max_tokens": 60000})).header("x-request-id", "cut").open();
    first_event(&mut cut);
    server.signal("TERM");
    within(Duration::from_secs(5), || server.output().contains("stopping:").then_some(()));
    server.signal("TERM");
    assert!(!server.ended(Duration::from_secs(10)).success());
    let failed = line(&server, "id=\"cut\"");
    assert!(failed.contains("status=200") && failed.contains("error=\"engine_stopped\""), "{failed}");
    let output = server.output();
    let last = output.lines().last().unwrap();
    // The stream that was cut got its error and its end; the one that was left did not.
    assert!(last.contains("stopped requests=4 unfinished=1 tokens="), "{output}");
}
