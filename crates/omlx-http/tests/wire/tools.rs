//! Tools: what is offered, calls in both modes, and chats with calls in their history.
//!
//! Faults planted and seen: all calls at index 0; what was held back at the end left out.

use std::fs;
use std::path::Path;

use omlx_http::{Owner, Settings};
use omlx_markup::Format;
use serde_json::{Value, json};

use crate::rig::{CHAT, Parts, Rig, TEXT, say, with};

/// A template that tells of tools, walks through arguments, and asks whether a text is in a content, as strict ones do.
const TEMPLATE: &str = "{#<tool_call>#}{% for t in tools or [] %}{{ t.function.name }}{{ t.function.parameters.type }} {% endfor %}\
{% for m in messages %}<{{ m.role }}>{% if 'a' in m.content %}{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}\
{{ c.id }}:{{ c.function.name }}({% for k, v in c.function.arguments|items %}{{ k }}={{ v }}{% endfor %}){% endfor %}{% endfor %}<go>";

pub(crate) fn template(folder: &Path, text: &str) {
    fs::write(folder.join("chat_template.jinja"), text).expect("a folder of its own");
}

/// A rig that says a text byte by byte, whose model knows tools.
pub(crate) fn speaking(text: &str, owner: Settings) -> Rig {
    let act = Some(say(text.bytes().map(u32::from).collect()));
    let owner = Owner { model: owner, ..Owner::default() };
    let change = |folder: &Path| template(folder, TEMPLATE);
    Rig::new(&["x"; 0], Parts { act, owner, change, context: 1 << 16, ..Parts::default() })
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object",
        "properties": {"at": {"type": "string"}, "n": {"type": "integer"}}}}})
}

pub(crate) fn asking() -> Value {
    json!({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "tools": [tool("look"), tool("wait")]})
}

const TWO: &str = "So.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"é, {\", \"n\": 1}}\n</tool_call>\n\
<tool_call>\n{\"name\": \"wait\", \"arguments\": {}}\n</tool_call>";

/// What a message comes to, whichever mode it came in; ids are left out.
pub(crate) fn message(choice: &Value) -> Value {
    let mut message = choice["message"].clone();
    for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        assert!(call["id"].take().as_str().is_some_and(|id| !id.is_empty()));
        assert_eq!(call["type"].take(), "function");
    }
    json!({"text": message["content"].as_str().unwrap_or_default(), "thought": message["reasoning_content"].as_str().unwrap_or_default(),
           "calls": message.get("tool_calls").cloned().unwrap_or(json!([])), "finish": choice["finish_reason"]})
}

/// The same, joined from a stream as clients join it: by index.
pub(crate) fn joined(events: &[Value]) -> Value {
    let (mut text, mut thought, mut calls, mut finish) =
        (String::new(), String::new(), Vec::<Value>::new(), Value::Null);
    let mut ids = Vec::new();
    for choice in events.iter().filter_map(|event| event["choices"].get(0)) {
        text += choice["delta"]["content"].as_str().unwrap_or_default();
        thought += choice["delta"]["reasoning_content"].as_str().unwrap_or_default();
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().expect("an index") as usize;
            if index == calls.len() {
                ids.push(call["id"].as_str().expect("an id").to_owned());
                assert_eq!(call["type"], "function");
                calls.push(
                    json!({"id": null, "type": null, "function": {"name": call["function"]["name"], "arguments": ""}}),
                );
            } else {
                assert!(call.get("id").is_none() && call["function"].get("name").is_none(), "said once: {call}");
            }
            let so_far = calls[index]["function"]["arguments"].as_str().expect("text").to_owned();
            calls[index]["function"]["arguments"] =
                (so_far + call["function"]["arguments"].as_str().expect("text")).into();
        }
        if !choice["finish_reason"].is_null() {
            assert!(finish.is_null(), "one reason");
            finish = choice["finish_reason"].clone();
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids differ");
    json!({"text": text, "thought": thought, "calls": calls, "finish": finish})
}

/// Asks in both modes, which have to say the same with the same usage.
pub(crate) async fn both(rig: &Rig, body: &Value) -> Value {
    let (status, answer) = rig.post(CHAT, body).await;
    assert_eq!(status, 200, "{answer}");
    let plain = message(&answer["choices"][0]);
    let (events, done) = rig.stream(CHAT, &with(body, &json!({"stream_options": {"include_usage": true}}))).await;
    assert!(done);
    assert_eq!(joined(&events), plain);
    assert_eq!(events.last().expect("a chunk")["usage"], answer["usage"]);
    plain
}

#[tokio::test]
async fn tool_1_each_call_has_its_index() {
    let rig = speaking(TWO, Settings::default());
    let said = both(&rig, &asking()).await;
    assert_eq!((&said["text"], &said["finish"]), (&json!("So."), &json!("tool_calls")));
    let calls: Vec<(&str, Value)> = said["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| {
            let arguments = call["function"]["arguments"].as_str().expect("text");
            (call["function"]["name"].as_str().expect("a name"), serde_json::from_str(arguments).expect("JSON"))
        })
        .collect();
    assert_eq!(calls, [("look", json!({"at": "é, {", "n": 1})), ("wait", json!({}))]);
    let (_, answer) = rig.post(CHAT, &asking()).await;
    let ids: Vec<&Value> =
        answer["choices"][0]["message"]["tool_calls"].as_array().expect("calls").iter().map(|c| &c["id"]).collect();
    assert_ne!(ids[0], ids[1]);
}

/// A call alone: no content, and nothing of the markup or the blanks around it.
#[tokio::test]
async fn a_call_alone_has_no_content() {
    let rig = speaking("\n<tool_call>{\"name\": \"wait\"}</tool_call>\n", Settings::default());
    let (_, answer) = rig.post(CHAT, &asking()).await;
    let message = &answer["choices"][0]["message"];
    assert_eq!((&message["content"], &message["tool_calls"][0]["function"]["arguments"]), (&Value::Null, &json!("{}")));
    both(&rig, &asking()).await;
}

/// The answer is the same for any length at which it is cut, in both modes.
#[tokio::test]
async fn the_same_streamed_and_not_wherever_it_is_cut() {
    for text in [
        TWO,
        "<think>\nso\n</think>\n\n<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}}</tool_call> a <tool_call> b",
    ] {
        let rig = speaking(text, Settings { thinking: Some("think".parse().ok()), ..Settings::default() });
        for most in 0..=text.len() + 1 {
            let said = both(&rig, &with(&asking(), &json!({"max_tokens": most}))).await;
            assert_eq!(said["finish"] == "length", most <= text.len(), "{most}: {said}");
        }
    }
}

/// Tokens of any length: the text in two tokens, cut at every byte, says the same.
#[tokio::test]
async fn the_same_however_tokens_cut_it() {
    let whole = both(&speaking(TWO, Settings::default()), &asking()).await;
    for at in 2..TWO.len() - 1 {
        let (a, b) = TWO.as_bytes().split_at(at);
        let change = |folder: &Path| template(folder, TEMPLATE);
        let rig = Rig::new(&[a, b], Parts { change, context: 1 << 16, ..Parts::default() });
        assert_eq!(both(&rig, &asking()).await, whole, "cut at {at}");
    }
}

#[tokio::test]
async fn one_call_where_only_one_is_wanted() {
    let rig = speaking(TWO, Settings::default());
    let said = both(&rig, &with(&asking(), &json!({"parallel_tool_calls": false}))).await;
    assert_eq!((said["calls"].as_array().map(Vec::len), &said["finish"]), (Some(1), &json!("tool_calls")));
    let said = both(&rig, &with(&asking(), &json!({"parallel_tool_calls": true}))).await;
    assert_eq!(said["calls"].as_array().map(Vec::len), Some(2));
}

/// What begins like a mark and is none comes out when the answer ends, by itself or by a limit.
#[tokio::test]
async fn what_was_held_back_comes_out() {
    for (text, most) in [("So <tool", 100), ("So <tool_call>{\"na", 100), ("So <tool_call>", 8), ("So \n", 100)] {
        let said = both(&speaking(text, Settings::default()), &with(&asking(), &json!({"max_tokens": most}))).await;
        assert_eq!(said["text"], text[..text.len().min(most)], "{text}");
    }
}

/// Without tools, or with a choice of none, nothing is a call, and the prompt says nothing of tools.
#[tokio::test]
async fn no_tools_no_calls() {
    let rig = speaking(TWO, Settings::default());
    let plain = json!({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]});
    let said = both(&rig, &plain).await;
    assert_eq!((said["text"].as_str(), &said["finish"]), (Some(TWO), &json!("stop")));
    let tokens = rig.asked()[0].tokens.clone();
    let said = both(&rig, &with(&asking(), &json!({"tool_choice": "none"}))).await;
    assert_eq!((said["text"].as_str(), &rig.asked()[0].tokens), (Some(TWO), &tokens));
}

fn prompt(rig: &Rig) -> String {
    rig.text.decode(&rig.asked()[0].tokens, false).expect("known ids")
}

#[tokio::test]
async fn tool_3_a_history_with_calls() {
    let rig = speaking("ok", Settings::default());
    let call =
        |arguments: &str| json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}});
    let history = |assistant: Value| {
        json!({"model": "tiny", "tools": [tool("look")], "messages": [{"role": "user", "content": "?"}, assistant,
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "42"}]}]})
    };
    for (arguments, written) in [("{\"q\":\"é\"}", "q=é"), ("", ""), ("not json", "arguments=not json")] {
        for assistant in [
            json!({"role": "assistant", "content": null, "tool_calls": [call(arguments)]}),
            json!({"role": "assistant", "tool_calls": [call(arguments)]}),
        ] {
            let (status, answer) = rig.post(CHAT, &history(assistant)).await;
            assert_eq!(status, 200, "{answer}");
            assert_eq!(prompt(&rig), format!("lookobject <user>?<assistant>c1:look({written})<tool>42<go>"));
        }
    }
}

/// A name of a format that the owner gives wins over what the template says.
#[tokio::test]
async fn the_owner_names_the_format() {
    let text = "[TOOL_CALLS]look[ARGS]{\"n\": 1}";
    let mistral = Settings { tool_format: Some(Some(Format::Mistral)), ..Settings::default() };
    let rig = speaking(text, mistral);
    let (_, answer) = rig.post(CHAT, &asking()).await;
    let id = answer["choices"][0]["message"]["tool_calls"][0]["id"].as_str().expect("an id");
    assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "as Mistral's templates want it: {id}");
    assert_eq!(both(&speaking(text, Settings::default()), &asking()).await["text"], text);
    let none = Settings { tool_format: Some(None), ..Settings::default() };
    let (status, answer) = speaking(text, none).post(CHAT, &asking()).await;
    assert_eq!((status, answer["error"]["param"].as_str()), (400, Some("tools")));
}

/// What a model would never be told of is refused, not dropped.
#[tokio::test]
async fn a_template_without_tools() {
    let (status, answer) = Rig::saying(&["ok "]).post(CHAT, &asking()).await;
    let said = answer["error"]["message"].as_str().expect("a message");
    assert!(status == 400 && answer["error"]["param"] == "tools" && said.contains("chat template"), "{answer}");
    let deaf = Parts { change: |folder| template(folder, "{#<tool_call> tools#}<go>"), ..Parts::default() };
    let (status, answer) = Rig::new(&["ok "], deaf).post(CHAT, &asking()).await;
    assert_eq!((status, answer["error"]["param"].as_str()), (400, Some("tools")), "{answer}");
}

#[tokio::test]
async fn tools_of_the_wrong_shape() {
    let rig = speaking("ok", Settings::default());
    let function = |function: Value| json!({"tools": [{"type": "function", "function": function}]});
    let many: Vec<Value> = (0..129).map(|i| tool(&format!("f{i}"))).collect();
    for (patch, param) in [
        (json!({"tools": [5]}), "tools[0]"),
        (json!({"tools": [{}]}), "tools[0].type"),
        (json!({"tools": [tool("a"), {"type": "custom", "custom": {"name": "x"}}]}), "tools[1].type"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
        (json!({"tools": [{"type": "function", "function": 5}]}), "tools[0].function"),
        (function(json!({})), "tools[0].function.name"),
        (function(json!({"name": "a b"})), "tools[0].function.name"),
        (function(json!({"name": "a".repeat(65)})), "tools[0].function.name"),
        (function(json!({"name": "a", "parameters": []})), "tools[0].function.parameters"),
        (function(json!({"name": "a", "description": 1})), "tools[0].function.description"),
        (function(json!({"name": "a", "strict": true})), "tools[0].function.strict"),
        (json!({"tools": many}), "tools"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"tool_choice": {"type": "function", "function": {"name": "look"}}}), "tool_choice"),
        (json!({"tool_choice": "some"}), "tool_choice"),
        (json!({"parallel_tool_calls": "no"}), "parallel_tool_calls"),
    ] {
        let (status, answer) = rig.post(CHAT, &with(&asking(), &patch)).await;
        assert_eq!((status, answer["error"]["param"].as_str()), (400, Some(param)), "{patch}: {answer}");
    }
    let lean = function(json!({"name": "look", "description": null, "strict": false}));
    let (status, _) = rig.post(CHAT, &with(&asking(), &lean)).await;
    assert_eq!((status, prompt(&rig).as_str()), (200, "lookobject <user>hi<go>"));
    let body = json!({"model": "tiny", "prompt": "x", "tools": [tool("look")]});
    assert_eq!(rig.post(TEXT, &body).await.1["error"]["param"], "tools");
}
