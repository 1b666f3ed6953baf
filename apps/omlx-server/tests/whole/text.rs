//! Text that comes out: stop strings and characters, the same streamed and not.

use std::path::Path;

use omlx_fixtures::parrot;
use serde_json::{Value, json};

use crate::server::Server;

/// What came out of one request, in both modes.
#[derive(Debug, PartialEq)]
struct Said {
    text: String,
    finish: String,
    completion: u64,
}

fn say(choice: &Value, text: String, usage: &Value) -> Said {
    Said {
        text,
        finish: choice["finish_reason"].as_str().unwrap_or("none").to_owned(),
        completion: usage["completion_tokens"].as_u64().unwrap(),
    }
}

/// Asks plain and streamed; both must say the same. Gives the streamed pieces too.
#[track_caller]
fn both(server: &Server, request: Value) -> (Said, Vec<String>) {
    let plain = server.completions(&request).send().ok();
    let choice = &plain["choices"][0];
    let plain = say(choice, choice["text"].as_str().unwrap().to_owned(), &plain["usage"]);

    let mut request = request;
    request["stream"] = true.into();
    request["stream_options"] = json!({"include_usage": true});
    let events = server.completions(&request).send().events();
    let choices: Vec<&Value> = events.iter().filter_map(|e| e["choices"].get(0)).collect();
    let pieces: Vec<String> =
        choices.iter().filter_map(|c| c["text"].as_str()).filter(|t| !t.is_empty()).map(str::to_owned).collect();
    let streamed = say(choices.last().unwrap(), pieces.concat(), &events.last().unwrap()["usage"]);
    assert_eq!(plain, streamed);
    (plain, pieces)
}

fn serve<E: AsRef<[u8]>>(entries: &[E]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    parrot(&dir.path().join("parrot"), entries);
    let server = Server::of(dir.path(), &[]);
    (dir, server)
}

fn request(more: &Value) -> Value {
    let mut request = json!({"model": "parrot", "prompt": "<go>", "max_tokens": 8, "temperature": 0});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

#[test]
fn api_1_stop_text_is_removed_whole() {
    let (_dir, server) = serve(&["ok ", ">>", ">> E", "ND", "\n", "tail"]);
    let whole = "ok >>>> END\ntail";
    let check = |stop: Value, text: &str| {
        let (said, _) = both(&server, request(&json!({"stop": stop})));
        assert_eq!((said.text.as_str(), said.finish.as_str()), (text, "stop"), "stop {stop}");
    };
    check(json!([">>>> END", ">>>> END\n"]), "ok ");
    check(json!([">>>> END\n", ">>>> END"]), "ok ");
    check(json!(">>>> END\n"), "ok ");
    check(json!(null), whole);
    check(json!([]), whole);
    // Held back for a while, then said after all.
    check(json!([">>>> ENDE"]), whole);
    check(json!(["tail!"]), whole);
    // In the middle of a token, over a border, at the very start.
    check(json!(["> E"]), "ok >>>");
    check(json!(["D\nt"]), "ok >>>> EN");
    check(json!(["ok"]), "");
    // The earliest place wins, whatever the order of the list.
    check(json!(["END", "k >"]), "o");
}

#[test]
fn api_1_a_stop_string_ends_the_work_too() {
    let (_dir, server) = serve(&["ok ", ">>", ">> E", "ND", "\n", "tail"]);
    let (said, _) = both(&server, request(&json!({"stop": ">> "})));
    assert_eq!((said.text.as_str(), said.completion), ("ok >>", 3));
    server.settle(std::time::Duration::from_secs(5));
}

#[test]
fn api_3_a_character_over_four_tokens_comes_in_one_piece() {
    let (_dir, server) = serve(&[b"\xf0".as_slice(), b"\x9f", b"\x98", b"\x80", b" ok"]);
    let (said, pieces) = both(&server, request(&json!({})));
    assert_eq!(pieces, ["😀", " ok"]);
    assert_eq!(said, Said { text: "😀 ok".into(), finish: "stop".into(), completion: 6 });
}

#[test]
fn api_3_a_broken_character_is_one_mark() {
    let (_dir, server) = serve(&[b"\xed".as_slice(), b"\x95", b" next"]);
    let (said, _) = both(&server, request(&json!({})));
    assert_eq!(said.text, "\u{fffd} next");
}

#[test]
fn api_3_the_limit_inside_a_character() {
    let (_dir, server) = serve(&[b"\xed".as_slice(), b"\x95", b"\x9c", b"!"]);
    let (said, _) = both(&server, request(&json!({"max_tokens": 2})));
    assert!(["", "\u{fffd}"].contains(&said.text.as_str()), "{said:?}");
    assert_eq!((said.finish.as_str(), said.completion), ("length", 2));
    let (said, _) = both(&server, request(&json!({"max_tokens": 3})));
    assert_eq!((said.text.as_str(), said.completion), ("한", 3));
}

#[test]
fn api_3_a_stop_string_may_be_a_character_over_several_tokens() {
    let (_dir, server) = serve(&[b"a".as_slice(), b"\xed", b"\x95", b"\x9c", b"b"]);
    let (said, _) = both(&server, request(&json!({"stop": "한"})));
    assert_eq!((said.text.as_str(), said.finish.as_str()), ("a", "stop"));
}

#[test]
fn a_chat_says_what_a_completion_says() {
    let (_dir, server) = serve(&["Hel", "lo", " world"]);
    let chat = json!({"model": "parrot", "messages": [{"role": "user", "content": "hi"}], "temperature": 0});
    let answer = server.chat(&chat).send().ok();
    assert_eq!(answer["choices"][0]["message"]["content"], "Hello world");
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    assert_eq!(answer["object"], "chat.completion");

    let mut chat = chat;
    chat["stream"] = true.into();
    let events = server.chat(&chat).send().events();
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "Hello world");
    for event in &events {
        assert_eq!(
            (&event["id"], &event["created"], &event["model"]),
            (&events[0]["id"], &events[0]["created"], &"parrot".into())
        );
        assert_eq!(event["object"], "chat.completion.chunk");
    }
}

#[test]
fn a_model_without_a_chat_template_still_completes() {
    let (dir, server) = serve(&["x", "y"]);
    drop(server);
    edit(&dir.path().join("parrot/tokenizer_config.json"), |config| {
        config.as_object_mut().unwrap().remove("chat_template");
    });
    let server = Server::of(dir.path(), &[]);
    let chat = json!({"model": "parrot", "messages": [{"role": "user", "content": "hi"}]});
    for stream in [false, true] {
        let mut chat = chat.clone();
        chat["stream"] = stream.into();
        let error = server.chat(&chat).send().error(400);
        assert!(error["message"].as_str().unwrap().contains("chat template"), "{error}");
    }
    assert_eq!(both(&server, request(&json!({}))).0.text, "xy");
}

/// Changes one JSON file.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}
