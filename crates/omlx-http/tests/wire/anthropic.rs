//! Anthropic's Messages: their shapes, the order of their events, and chats as their clients send them.
//!
//! Faults planted and seen: all blocks at index 0; errors in OpenAI's shape.

use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use omlx_api::{Fault, Finish, Refusal, Usage};
use omlx_http::{Config, Settings};
use serde_json::{Value, json};

use crate::rig::{Act, CACHED, Parts, Rig, post, read, with};
use crate::tools::{speaking, template};

const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

fn asking(patch: &Value) -> Value {
    with(&json!({"model": "tiny", "max_tokens": 4096, "messages": [{"role": "user", "content": "hi"}]}), patch)
}

fn tools() -> Value {
    json!([{"name": "look", "description": "d", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}},
           {"name": "wait", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}])
}

const SCRIPT: &str = "<think>\nplan\n</think>\n\nSo.\n<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"é\"}}</tool_call>\n\
<tool_call>{\"name\": \"wait\"}</tool_call>";

fn thinking() -> Settings {
    Settings { thinking: Some("think".parse().ok()), ..Settings::default() }
}

/// The events of a stream; each has the name of its type.
fn events(body: &str) -> Vec<Value> {
    let event = |event: &str| {
        let (name, data) = event.strip_prefix("event: ")?.split_once("\ndata: ")?;
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(data["type"], name);
        Some(data)
    };
    body.split("\n\n").filter(|part| !part.is_empty()).map(|part| event(part).expect("an event")).collect()
}

async fn streamed(rig: &Rig, body: &Value) -> Vec<Value> {
    let (status, headers, text) = rig.raw(MESSAGES, &with(body, &json!({"stream": true}))).await;
    assert_eq!(
        (status, &headers[header::CONTENT_TYPE]),
        (200, &"text/event-stream".parse().expect("a value")),
        "{text}"
    );
    events(&text)
}

/// A message put together from its events as clients do it, which checks their order.
fn joined(events: &[Value]) -> Value {
    let mut events = events.iter().filter(|event| event["type"] != "ping");
    let first = events.next().expect("an event");
    assert_eq!(first["type"], "message_start");
    let mut message = first["message"].clone();
    let (mut open, mut arguments) = (None, String::new());
    while let Some(event) = events.next() {
        let index = event["index"].as_u64();
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                let content = message["content"].as_array_mut().expect("blocks");
                assert_eq!((open, index), (None, Some(content.len() as u64)));
                content.push(event["content_block"].clone());
                open = index;
            }
            "content_block_delta" => {
                assert!(open.is_some() && open == index, "{event}");
                let block = message["content"].as_array_mut().and_then(|c| c.last_mut()).expect("a block");
                let delta = &event["delta"];
                let field = match delta["type"].as_str().expect("a type") {
                    "text_delta" => "text",
                    "thinking_delta" => "thinking",
                    "signature_delta" => "signature",
                    "input_json_delta" => {
                        arguments += delta["partial_json"].as_str().expect("text");
                        continue;
                    }
                    other => panic!("{other}"),
                };
                let more = delta[field].as_str().expect("text");
                block[field] = format!("{}{more}", block[field].as_str().expect("text")).into();
            }
            "content_block_stop" => {
                assert!(open.is_some() && open == index, "{event}");
                open = None;
                let block = message["content"].as_array_mut().and_then(|c| c.last_mut()).expect("a block");
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&std::mem::take(&mut arguments)).unwrap_or(json!("cut"));
                }
            }
            "message_delta" => {
                assert_eq!(open, None);
                for (key, value) in event["delta"].as_object().expect("an object") {
                    message[key] = value.clone();
                }
                message["usage"] = event["usage"].clone();
            }
            "message_stop" => assert!(events.next().is_none(), "the last one"),
            other => panic!("{other}"),
        }
    }
    message
}

/// The same without what differs between two answers.
fn plain(mut message: Value) -> Value {
    assert!(message["id"].take().as_str().is_some_and(|id| id.starts_with("msg_")));
    for block in message["content"].as_array_mut().expect("blocks").iter_mut().filter(|b| b["type"] == "tool_use") {
        assert!(block["id"].take().as_str().is_some_and(|id| id.starts_with("toolu_")));
    }
    message
}

async fn both(rig: &Rig, body: &Value) -> Value {
    let (status, answer) = rig.post(MESSAGES, body).await;
    assert_eq!(status, 200, "{answer}");
    let answer = plain(answer);
    assert_eq!(plain(joined(&streamed(rig, body).await)), answer);
    answer
}

#[tokio::test]
async fn a_message_word_for_word() {
    let rig = speaking(SCRIPT, thinking());
    let answer = both(&rig, &asking(&json!({"tools": tools()}))).await;
    let prompt = rig.asked()[0].tokens.len();
    let expected = json!({"id": null, "type": "message", "role": "assistant", "model": "tiny", "content": [
        {"type": "thinking", "thinking": "plan", "signature": "omlx"},
        {"type": "text", "text": "So."},
        {"type": "tool_use", "id": null, "name": "look", "input": {"at": "é"}},
        {"type": "tool_use", "id": null, "name": "wait", "input": {}}],
        "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": prompt - CACHED, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": CACHED, "output_tokens": SCRIPT.len() + 1}});
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn a_stream_in_its_order() {
    let rig = Rig::new(&["ok ", "then"], Parts { context: 4096, ..Parts::default() });
    let mut events = streamed(&rig, &asking(&json!({}))).await;
    let usage = |output: usize| json!({"input_tokens": 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": CACHED, "output_tokens": output});
    let input = rig.asked()[0].tokens.len() - CACHED;
    let usage = |output: usize| with(&usage(output), &json!({"input_tokens": input}));
    assert!(events[0]["message"]["id"].take().is_string());
    let expected = [
        json!({"type": "message_start", "message": {"id": null, "type": "message", "role": "assistant", "model": "tiny", "content": [],
               "stop_reason": null, "stop_sequence": null, "usage": usage(0)}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok "}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "then"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": usage(3)}),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(events, expected);
}

/// Field case of section 14: a call alone stands at index 0, and nothing of the blanks around it is sent.
#[tokio::test]
async fn a_call_alone_is_the_first_block() {
    let rig = speaking("\n\n<tool_call>{\"name\": \"wait\"}</tool_call>\n", Settings::default());
    let answer = both(&rig, &asking(&json!({"tools": tools()}))).await;
    assert_eq!(answer["content"].as_array().map(Vec::len), Some(1));
    assert_eq!(answer["content"][0]["type"], "tool_use");
}

/// Every limit ends in a message that is whole; a call that is cut has what came of it.
#[tokio::test]
async fn a_message_that_is_cut_anywhere() {
    let rig = speaking(SCRIPT, thinking());
    for most in 1..=SCRIPT.len() {
        let body = asking(&json!({"tools": tools(), "max_tokens": most}));
        let (status, answer) = rig.post(MESSAGES, &body).await;
        assert_eq!((status, &answer["stop_reason"]), (200, &json!("max_tokens")), "{answer}");
        let mut stream = joined(&streamed(&rig, &body).await);
        for (block, whole) in stream["content"]
            .as_array_mut()
            .expect("blocks")
            .iter_mut()
            .zip(answer["content"].as_array().expect("blocks"))
        {
            if block["input"] == "cut" {
                block["input"] = whole["input"].clone();
            }
        }
        assert_eq!(plain(stream), plain(answer), "{most}");
    }
}

#[tokio::test]
async fn why_it_ended() {
    let rig = speaking("one two", Settings::default());
    for (patch, reason, sequence, text) in [
        (json!({}), "end_turn", json!(null), "one two"),
        (json!({"max_tokens": 3}), "max_tokens", json!(null), "one"),
        (json!({"stop_sequences": ["x", " t"]}), "stop_sequence", json!(" t"), "one"),
        (json!({"stop_sequences": []}), "end_turn", json!(null), "one two"),
    ] {
        let answer = both(&rig, &asking(&patch)).await;
        assert_eq!((answer["stop_reason"].as_str(), &answer["stop_sequence"]), (Some(reason), &sequence), "{patch}");
        assert_eq!(answer["content"], json!([{"type": "text", "text": text}]));
    }
    let asked = {
        let body = asking(&json!({"temperature": 0.5, "top_k": 7, "top_p": 0.25}));
        rig.asked();
        rig.post(MESSAGES, &body).await;
        rig.asked().remove(0).sampling
    };
    assert_eq!((asked.temperature, asked.top_k, asked.top_p), (0.5, 7, 0.25));
}

fn prompt(rig: &Rig) -> String {
    rig.text.decode(&rig.asked()[0].tokens, false).expect("known ids")
}

#[tokio::test]
async fn a_history_of_blocks() {
    let rig = speaking("ok", Settings::default());
    let body = asking(&json!({
        "system": [{"type": "text", "text": "be", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "brief"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "c"},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"q": "é"}},
                {"type": "tool_use", "id": "toolu_2", "name": "wait", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "42"}]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "43", "is_error": true}, {"type": "text", "text": "go on"}]}]}));
    let (status, answer) = rig.post(MESSAGES, &body).await;
    assert_eq!(status, 200, "{answer}");
    let expected =
        "<system>be\nbrief<user>a\nb<assistant>ctoolu_1:look(q=é)toolu_2:wait()<tool>42<tool>43<user>go on<go>";
    assert_eq!(prompt(&rig), expected);
    // The same count without an answer, whatever the limit.
    let (status, count) = rig.post(COUNT, &with(&body, &json!({"max_tokens": null}))).await;
    let tokens = answer["usage"]["input_tokens"].as_u64().expect("a number") + CACHED as u64;
    assert_eq!((status, &count), (200, &json!({"input_tokens": tokens})));
    assert!(rig.asked().is_empty(), "counting troubles no engine");
}

#[tokio::test]
async fn ant_1_results_of_every_shape() {
    let rig = speaking("ok", Settings::default());
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]});
    let result = |content: Value| {
        let mut block = json!({"type": "tool_result", "tool_use_id": "t", "content": content, "unknown": 1});
        if block["content"].is_null() {
            block.as_object_mut().expect("an object").remove("content");
        }
        asking(&json!({"messages": [call, {"role": "user", "content": [block]}]}))
    };
    for (content, text) in [
        (json!("shot"), "shot"),
        (json!([]), ""),
        (Value::Null, ""),
        (json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "a\nb"),
        (
            json!([{"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}]),
            "T\nd",
        ),
    ] {
        let (status, answer) = rig.post(MESSAGES, &result(content)).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(prompt(&rig), format!("<assistant>t:look()<tool>{text}<go>"));
    }
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let inside = result(json!([image, {"type": "text", "text": "shot"}]));
    let plain = asking(&json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, image]}]}));
    for (body, at) in [(inside, "messages.1.content.0.content.0"), (plain, "messages.0.content.1")] {
        for route in [MESSAGES, COUNT] {
            let (status, answer) = rig.post(route, &body).await;
            assert_eq!(
                (status, &answer["type"], &answer["error"]["type"]),
                (400, &json!("error"), &json!("invalid_request_error"))
            );
            let said = answer["error"]["message"].as_str().expect("a message");
            assert!(said.contains(at) && said.contains("image") && !said.contains("iVBOR"), "{said}");
        }
    }
}

#[tokio::test]
async fn ant_2_a_later_system_message() {
    // Strict: a system message stands first, and no role is unknown.
    let strict: fn(&Path) = |folder| {
        template(
            folder,
            "{% for m in messages %}{% if m.role == 'system' and not loop.first %}\
{{ raise_exception('System message must be at the beginning.') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}<go>",
        )
    };
    let rig = Rig::new(&["ok "], Parts { change: strict, context: 4096, ..Parts::default() });
    let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "yo"},
        {"role": "system", "content": [{"type": "text", "text": "mode on"}]}, {"role": "user", "content": "b"}]);
    let (status, answer) = rig.post(MESSAGES, &asking(&json!({"system": "be", "messages": messages}))).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(prompt(&rig), "<system>be<user>a<assistant>yo<user>mode on\n\nb<go>");
    // A real refusal is the template's own words.
    let refusing: fn(&Path) = |folder| template(folder, "{{ raise_exception('Not today.') }}");
    let (status, answer) =
        Rig::new(&["ok "], Parts { change: refusing, ..Parts::default() }).post(MESSAGES, &asking(&json!({}))).await;
    assert_eq!((status, answer["error"]["message"].as_str()), (400, Some("Not today.")), "{answer}");
}

#[tokio::test]
async fn choices_of_tools() {
    let rig = speaking(SCRIPT, thinking());
    let with_tools = |choice: Value| asking(&json!({"tools": tools(), "tool_choice": choice}));
    let calls = |answer: &Value| {
        answer["content"].as_array().expect("blocks").iter().filter(|b| b["type"] == "tool_use").count()
    };
    assert_eq!(calls(&both(&rig, &with_tools(json!({"type": "auto"}))).await), 2);
    assert_eq!(calls(&both(&rig, &with_tools(json!({"type": "auto", "disable_parallel_tool_use": true}))).await), 1);
    let answer = both(&rig, &with_tools(json!({"type": "none"}))).await;
    assert!(
        calls(&answer) == 0 && answer["content"][1]["text"].as_str().is_some_and(|text| text.contains("<tool_call>"))
    );
    for choice in ["any", "tool"] {
        let (status, answer) = rig.post(MESSAGES, &with_tools(json!({"type": choice, "name": "look"}))).await;
        assert!(
            status == 400 && answer["error"]["message"].as_str().is_some_and(|m| m.contains("tool_choice")),
            "{answer}"
        );
    }
}

/// Whether to think is told to templates that can be told; a model that cannot think is none the worse for it.
#[tokio::test]
async fn thinking_is_allowed_and_not_demanded() {
    let knob: fn(&Path) = |folder| template(folder, "{{ enable_thinking }}{{ reasoning_effort }}<go>");
    let rig = Rig::new(&["ok "], Parts { change: knob, context: 4096, ..Parts::default() });
    for (patch, expected) in [
        (json!({}), "Falsenone<go>"),
        (json!({"thinking": {"type": "disabled"}}), "Falsenone<go>"),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}), "Truemedium<go>"),
        (json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}), "Truehigh<go>"),
    ] {
        let (status, answer) = rig.post(MESSAGES, &asking(&patch)).await;
        assert_eq!((status, prompt(&rig).as_str()), (200, expected), "{patch} {answer}");
    }
    let deaf = Rig::new(&["ok "], Parts { context: 4096, ..Parts::default() });
    assert_eq!(
        deaf.post(MESSAGES, &asking(&json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}))).await.0,
        200
    );
}

#[tokio::test]
async fn a_prefill_goes_on() {
    let turns: fn(&Path) = |folder| {
        template(folder, "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}<go>")
    };
    let rig = Rig::new(&["ok "], Parts { change: turns, context: 4096, ..Parts::default() });
    let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "text", "text": "It is ("}]}]);
    assert_eq!(rig.post(MESSAGES, &asking(&json!({"messages": messages}))).await.0, 200);
    assert_eq!(prompt(&rig), "<user>a</user><assistant>It is (");
}

#[tokio::test]
async fn a_request_of_the_wrong_shape() {
    let rig = speaking("ok", Settings::default());
    let tool = |tool: Value| json!({"tools": [tool]});
    for (patch, at) in [
        (json!({"model": null}), "model"),
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": "5"}), "max_tokens"),
        (json!({"messages": null}), "messages"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [5]}), "messages.0"),
        (json!({"messages": [{"content": "x"}]}), "messages.0.role"),
        (json!({"messages": [{"role": "tool", "content": "x"}]}), "messages.0.role"),
        (json!({"messages": [{"role": "user"}]}), "messages.0.content"),
        (json!({"messages": [{"role": "user", "content": [{"text": "x"}]}]}), "messages.0.content.0.type"),
        (json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]}), "messages.0.content.0.text"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}),
            "messages.0.content.0.tool_use_id",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": 3}]}]}),
            "messages.0.content.0.input",
        ),
        (json!({"system": 5}), "system"),
        (json!({"stop_sequences": [""]}), "stop_sequences.0"),
        (json!({"temperature": 9}), "temperature"),
        (tool(json!({"type": "web_search_20250305", "name": "web_search"})), "tools.0.type"),
        (tool(json!({"name": "a b", "input_schema": {}})), "tools.0.name"),
        (tool(json!({"name": "look"})), "tools.0.input_schema"),
        (tool(json!({"name": "look", "input_schema": {}, "strict": true})), "tools.0.strict"),
        (json!({"tool_choice": {"type": "some"}}), "tool_choice.type"),
        (json!({"thinking": {"type": "some"}}), "thinking.type"),
        (json!({"mcp_servers": [{}]}), "mcp_servers"),
        (json!({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}), "context_management"),
        (json!({"output_config": {"format": {"type": "json_schema"}}}), "output_config.format"),
    ] {
        let (status, answer) = rig.post(MESSAGES, &asking(&patch)).await;
        assert_eq!(
            (status, &answer["type"], &answer["error"]["type"]),
            (400, &json!("error"), &json!("invalid_request_error")),
            "{patch}"
        );
        let said = answer["error"]["message"].as_str().expect("a message");
        assert!(said.contains(&format!("`{at}")), "{patch}: {said}");
    }
    let idle = json!({"metadata": {"user_id": "u"}, "mcp_servers": [], "cache_control": {"type": "ephemeral"}, "tools": [],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, "service_tier": "auto"});
    assert_eq!(rig.post(MESSAGES, &asking(&idle)).await.0, 200);
}

/// Errors of every part of the server come in the client's dialect: routes, keys, bodies, models, engines.
#[tokio::test]
async fn every_error_in_the_clients_dialect() {
    let refuse = |fault: Fault| -> Option<Act> { Some(Box::new(move |_, reply| reply.fail(fault.clone()))) };
    let acting = |act| Rig::new(&["ok "], Parts { act, context: 4096, ..Parts::default() });
    for (fault, status, kind) in [
        (Fault::Refused(Refusal::TooLong { tokens: 80, context: 64 }), 400, "invalid_request_error"),
        (Fault::Refused(Refusal::Full { waiting: 3 }), 503, "overloaded_error"),
        (Fault::Refused(Refusal::NeverFits { tokens: 80, most: 64 }), 507, "api_error"),
        (Fault::Engine { reason: "x".to_owned() }, 500, "api_error"),
    ] {
        for stream in [false, true] {
            let (found, answer) =
                acting(refuse(fault.clone())).post(MESSAGES, &asking(&json!({"stream": stream}))).await;
            assert_eq!((found, answer["error"]["type"].as_str()), (status, Some(kind)), "{answer}");
        }
    }
    // Claude's clients shorten a chat when they read these words.
    let (status, answer) = Rig::saying(&["ok "])
        .post(MESSAGES, &asking(&json!({"messages": [{"role": "user", "content": "x".repeat(80)}]})))
        .await;
    let said = answer["error"]["message"].as_str().expect("a message");
    assert!(status == 400 && said.starts_with("prompt is too long: ") && said.contains("64"), "{said}");
    let rig = Rig::saying(&["ok "]);
    let (status, answer) = rig.post(MESSAGES, &asking(&json!({"model": "nobody"}))).await;
    assert_eq!((status, answer["error"]["type"].as_str()), (404, Some("not_found_error")));
    for (request, status, kind) in [
        (Request::get(MESSAGES).body(Body::empty()), 405, "invalid_request_error"),
        (Request::post(MESSAGES).body(Body::from("{}")), 415, "invalid_request_error"),
        (
            Request::post(MESSAGES).header(header::CONTENT_TYPE, "application/json").body(Body::from("{")),
            400,
            "invalid_request_error",
        ),
        (
            Request::get("/v1/nothing").header("anthropic-version", "2023-06-01").body(Body::empty()),
            404,
            "not_found_error",
        ),
    ] {
        let (found, headers, body) = read(rig.send(request.expect("a request")).await).await;
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((found, answer["error"]["type"].as_str()), (status, Some(kind)), "{body}");
        assert!(headers.contains_key("request-id"));
    }
    let config = Config { api_key: Some("k".to_owned()), ..Config::default() };
    let locked = Rig::new(&["ok "], Parts { config, context: 4096, ..Parts::default() });
    let (status, answer) = locked.post(MESSAGES, &asking(&json!({}))).await;
    assert_eq!((status, answer["error"]["type"].as_str()), (401, Some("authentication_error")));
    for (name, value) in [("x-api-key", "k"), ("authorization", "Bearer k")] {
        let mut request = post(MESSAGES, &asking(&json!({})));
        request.headers_mut().insert(name, value.parse().expect("a value"));
        assert_eq!(locked.send(request).await.status(), 200, "{name}");
    }
}

/// An engine that fails in the middle: an error event, and nothing after it.
#[tokio::test]
async fn a_stream_that_fails() {
    let act: Act = Box::new(|_, reply| {
        reply.token(u32::from(b'a'), None);
        reply.fail(Fault::Stopped);
    });
    let rig = Rig::new(&["ok "], Parts { act: Some(act), context: 4096, ..Parts::default() });
    let events = streamed(&rig, &asking(&json!({}))).await;
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["message_start", "content_block_start", "content_block_delta", "error"]);
    assert_eq!(events[3]["error"]["type"], "overloaded_error");
}

/// While nothing is said, pings are.
#[tokio::test]
async fn a_slow_answer_pings() {
    let act: Act = Box::new(|request, reply| {
        std::thread::sleep(Duration::from_millis(300));
        reply.token(u32::from(b'a'), None);
        reply.done(Finish::Stop, Usage { prompt: request.tokens.len(), cached: 0, completion: 2 });
    });
    let config = Config { keep_alive: Some(Duration::from_millis(20)), ..Config::default() };
    let rig = Rig::new(&["ok "], Parts { act: Some(act), config, context: 4096, ..Parts::default() });
    let events = streamed(&rig, &asking(&json!({}))).await;
    assert!(events.iter().filter(|event| event["type"] == "ping").count() > 2, "{events:?}");
    assert_eq!(joined(&events)["content"], json!([{"type": "text", "text": "a"}]));
}

#[tokio::test]
async fn models_in_the_clients_shape() {
    let rig = Rig::saying(&["ok "]);
    let get = |path: &str| {
        Request::get(path).header("anthropic-version", "2023-06-01").body(Body::empty()).expect("a request")
    };
    let model = json!({"type": "model", "id": "org/tiny", "display_name": "org/tiny", "created_at": "2023-11-14T22:13:20Z", "lifecycle": "active", "max_input_tokens": 64});
    let (status, _, body) = read(rig.send(get("/v1/models")).await).await;
    let list: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &list["data"][0], &list["has_more"]), (200, &model, &json!(false)));
    assert_eq!((&list["first_id"], &list["last_id"]), (&json!("org/tiny"), &json!("org2/tiny")));
    let (_, _, body) = read(rig.send(get("/v1/models/tiny")).await).await;
    assert_eq!(serde_json::from_str::<Value>(&body).expect("JSON"), model);
    assert_eq!(rig.get("/v1/models").await.1["object"], "list");
}
