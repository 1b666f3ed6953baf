//! Anthropic's messages and tools in the form that chat templates know; a fault is named down to the block.
//!
//! What this server cannot read (images, files) is refused by its place and never read as text: a picture in base64 is millions of
//! tokens. Signatures and `cache_control` mean nothing here and are left out.

use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::words::shown;

const TEXT_ONLY: &str = "this server reads text only; leave it out, or send what it says as a block of type \"text\"";
const SERVER_TOOL: &str = "this server runs no tools itself; send tools with a `name` and an `input_schema`";
const STRICT: &str = "arguments are not held to a schema yet; leave it out or send false";

/// The `system` of a request as a message, if it says anything.
pub(super) fn system(system: &Value) -> Result<Option<Value>, Error> {
    let text = match system {
        Value::Null => return Ok(None),
        Value::String(text) => text.clone(),
        Value::Array(blocks) => texts("system", blocks)?,
        other => return Err(range("system", "a string or a list of blocks", other)),
    };
    Ok((!text.is_empty()).then(|| json!({"role": "system", "content": text})))
}

/// One message as the messages that it stands for: results of tools are messages of their own there.
pub(super) fn message(index: usize, message: &Value, out: &mut Vec<Value>) -> Result<(), Error> {
    let at = format!("messages.{index}");
    let Value::Object(message) = message else { return Err(range(&at, "an object", message)) };
    let role = match message.get("role") {
        None | Some(Value::Null) => return Err(Error::Missing(format!("{at}.role").into())),
        Some(Value::String(role)) if ["user", "assistant", "system"].contains(&role.as_str()) => role.as_str(),
        Some(other) => return Err(range(&format!("{at}.role"), "\"user\", \"assistant\" or \"system\"", other)),
    };
    let at = format!("{at}.content");
    let blocks = match message.get("content") {
        None | Some(Value::Null) => return Err(Error::Missing(at.into())),
        Some(Value::String(text)) => {
            out.push(json!({"role": role, "content": text}));
            return Ok(());
        }
        Some(Value::Array(blocks)) => blocks,
        Some(other) => return Err(range(&at, "a string or a list of blocks", other)),
    };
    match role {
        "assistant" => out.push(assistant(&at, blocks)?),
        "system" => out.push(json!({"role": role, "content": texts(&at, blocks)?})),
        _ => user(&at, blocks, out)?,
    }
    Ok(())
}

fn user(at: &str, blocks: &[Value], out: &mut Vec<Value>) -> Result<(), Error> {
    let mut said: Vec<String> = Vec::new();
    let before = out.len();
    for (i, block) in blocks.iter().enumerate() {
        let at = format!("{at}.{i}");
        if kind(&at, block)? != "tool_result" {
            said.push(text(&at, block)?);
            continue;
        }
        if !said.is_empty() {
            out.push(json!({"role": "user", "content": said.join("\n")}));
            said.clear();
        }
        let id = string(&at, block, "tool_use_id")?;
        let content = match block.get("content") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(blocks)) => texts(&format!("{at}.content"), blocks)?,
            Some(other) => return Err(range(&format!("{at}.content"), "a string or a list of blocks", other)),
        };
        // Some templates name the tool of a result.
        let name = out.iter().rev().find_map(|message| called(message, id)).unwrap_or_default();
        out.push(json!({"role": "tool", "tool_call_id": id, "name": name, "content": content}));
    }
    if !said.is_empty() || out.len() == before {
        out.push(json!({"role": "user", "content": said.join("\n")}));
    }
    Ok(())
}

/// The name of the call with this id, if the message holds it.
fn called(message: &Value, id: &str) -> Option<String> {
    let calls = message.get("tool_calls")?.as_array()?;
    let call = calls.iter().find(|call| call["id"] == id)?;
    Some(call["function"]["name"].as_str()?.to_owned())
}

fn assistant(at: &str, blocks: &[Value]) -> Result<Value, Error> {
    let (mut said, mut thought, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for (i, block) in blocks.iter().enumerate() {
        let at = format!("{at}.{i}");
        match kind(&at, block)? {
            "thinking" => thought.push(string(&at, block, "thinking")?.to_owned()),
            // It is sealed for others, and says nothing here.
            "redacted_thinking" => {}
            "tool_use" => {
                let (id, name) = (string(&at, block, "id")?, string(&at, block, "name")?);
                let input = block.get("input").filter(|input| !input.is_null()).cloned().unwrap_or_else(|| json!({}));
                if !input.is_object() {
                    return Err(range(&format!("{at}.input"), "an object", &input));
                }
                calls.push(json!({"id": id, "type": "function", "function": {"name": name, "arguments": input}}));
            }
            _ => said.push(text(&at, block)?),
        }
    }
    let mut message = json!({"role": "assistant", "content": said.join("\n")});
    if !thought.is_empty() {
        message["reasoning_content"] = thought.join("\n").into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    Ok(message)
}

/// The texts of blocks that may hold text alone.
fn texts(at: &str, blocks: &[Value]) -> Result<String, Error> {
    let read = |(i, block)| {
        let at = format!("{at}.{i}");
        kind(&at, block)?;
        text(&at, block)
    };
    Ok(blocks.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn kind<'a>(at: &str, block: &'a Value) -> Result<&'a str, Error> {
    if !block.is_object() {
        return Err(range(at, "an object", block));
    }
    string(at, block, "type")
}

/// The text of a block that has one.
fn text(at: &str, block: &Value) -> Result<String, Error> {
    match block["type"].as_str().unwrap_or_default() {
        "text" => Ok(string(at, block, "text")?.to_owned()),
        "document" => {
            let source = block.get("source").unwrap_or(&Value::Null);
            let body = match (source["type"].as_str(), source.get("content")) {
                (Some("text"), _) => string(&format!("{at}.source"), source, "data")?.to_owned(),
                (Some("content"), Some(Value::String(text))) => text.clone(),
                (Some("content"), Some(Value::Array(blocks))) => texts(&format!("{at}.source.content"), blocks)?,
                _ => return Err(Error::Unsupported { param: at.to_owned().into(), way_out: TEXT_ONLY }),
            };
            let head = ["title", "context"].map(|key| block.get(key).and_then(Value::as_str));
            Ok(head.into_iter().flatten().chain([body.as_str()]).collect::<Vec<_>>().join("\n"))
        }
        "search_result" => {
            let blocks = block.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let head = ["title", "source"].map(|key| block.get(key).and_then(Value::as_str));
            let body = texts(&format!("{at}.content"), blocks)?;
            Ok(head.into_iter().flatten().chain([body.as_str()]).collect::<Vec<_>>().join("\n"))
        }
        _ => Err(Error::Unsupported { param: format!("{at} of type {}", block["type"]).into(), way_out: TEXT_ONLY }),
    }
}

/// The tools in the form that templates know.
pub(super) fn tools(tools: &[Value]) -> Result<Vec<Value>, Error> {
    let tool = |(i, tool): (usize, &Value)| {
        let at = format!("tools.{i}");
        let Value::Object(map) = tool else { return Err(range(&at, "an object", tool)) };
        if map.get("type").is_some_and(|kind| !kind.is_null() && kind != "custom") {
            return Err(Error::Unsupported { param: format!("{at}.type").into(), way_out: SERVER_TOOL });
        }
        let name = string(&at, tool, "name")?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=128).contains(&name.len()) || !name.bytes().all(fits) {
            return Err(range(&format!("{at}.name"), "1 to 128 letters, digits, `_` and `-`", &tool["name"]));
        }
        if map.get("strict") == Some(&Value::Bool(true)) {
            return Err(Error::Unsupported { param: format!("{at}.strict").into(), way_out: STRICT });
        }
        let schema = match map.get("input_schema") {
            None | Some(Value::Null) => return Err(Error::Missing(format!("{at}.input_schema").into())),
            Some(schema @ Value::Object(_)) => schema,
            Some(other) => return Err(range(&format!("{at}.input_schema"), "an object", other)),
        };
        let description = map.get("description").and_then(Value::as_str).unwrap_or_default();
        let mut function = Map::new();
        function.insert("name".to_owned(), name.into());
        function.insert("description".to_owned(), description.into());
        function.insert("parameters".to_owned(), schema.clone());
        Ok(json!({"type": "function", "function": function}))
    };
    tools.iter().enumerate().map(tool).collect()
}

fn string<'a>(at: &str, block: &'a Value, field: &str) -> Result<&'a str, Error> {
    match block.get(field) {
        None | Some(Value::Null) => Err(Error::Missing(format!("{at}.{field}").into())),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(range(&format!("{at}.{field}"), "a string", other)),
    }
}

fn range(at: &str, expected: &str, found: &Value) -> Error {
    Error::Range { param: at.to_owned(), expected: expected.to_owned(), found: shown(found) }
}
