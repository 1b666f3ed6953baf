//! From the chat a client sends to the chat a template understands.
//!
//! Clients send what the wire format allows: `content` as null or as parts, arguments as JSON text, a
//! `developer` role, system messages in the middle. Templates were written against a narrower form. Each
//! difference is settled here, before rendering, so that templates never see it.

mod fold;

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::template::{Context, Template};

/// Stands at the end of a message that is to be continued; the prompt is cut there.
const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A chat as clients send it.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    /// The messages in wire form: `role`, `content`, `tool_calls`, ...
    pub messages: Vec<Value>,
    /// Tools the model may call, in wire form. An empty list counts as none.
    pub tools: Option<Vec<Value>>,
    /// More variables for the template, such as `enable_thinking`.
    pub kwargs: Map<String, Value>,
    /// Whether the prompt ends where the assistant's turn begins.
    pub add_generation_prompt: bool,
    /// Whether the last message, the assistant's, is to be continued and not ended.
    pub continue_final: bool,
}

/// Renders a chat.
///
/// A system message that the template refuses, or drops without a word, is folded into the next user turn.
/// If nothing helps, the answer is the template's own to the chat as it was sent.
pub(crate) fn render(template: &Template, chat: &Chat, now: SystemTime) -> Result<String> {
    let mut messages = chat
        .messages
        .iter()
        .enumerate()
        .map(|(index, message)| normalise(index, message))
        .collect::<Result<Vec<_>>>()?;
    if chat.continue_final {
        mark_final(&mut messages)?;
    }
    let attempt = |messages: &[Value]| {
        template.render(&Context {
            messages,
            tools: chat.tools.as_deref().filter(|tools| !tools.is_empty()),
            kwargs: &chat.kwargs,
            add_generation_prompt: chat.add_generation_prompt && !chat.continue_final,
            now,
        })
    };
    let first = attempt(&messages);
    let text = match first {
        Ok(text) if fold::is_complete(&text, &messages) => text,
        // Another form would take as long, and nobody waits for all of them.
        Err(error @ Error::TemplateBudget { .. }) => return Err(error),
        other => fold::variants(&messages)
            .into_iter()
            .find_map(|variant| attempt(&variant).ok().filter(|text| fold::is_complete(text, &messages)))
            .map_or(other, Ok)?,
    };
    if chat.continue_final { cut_final(&text) } else { Ok(text) }
}

/// One message in the form templates expect.
fn normalise(index: usize, message: &Value) -> Result<Value> {
    let bad =
        |at: &str, expected, found: &Value| Error::Message { index, at: at.to_owned(), expected, found: brief(found) };
    let Value::Object(message) = message else {
        return Err(bad("", "an object", message));
    };
    let mut message = message.clone();
    match message.get("role") {
        Some(Value::String(role)) if role == "developer" => {
            message.insert("role".into(), "system".into());
        }
        Some(Value::String(_)) => {}
        other => return Err(bad(".role", "a text", other.unwrap_or(&Value::Null))),
    }
    let content = text_of(index, message.get("content").unwrap_or(&Value::Null))?;
    message.insert("content".into(), content.into());
    // Clients echo fields of an answer that were null or empty; templates only ask whether they are there.
    message.retain(|key, value| !(value.is_null() || key == "tool_calls" && *value == json!([])));
    match message.get_mut("tool_calls") {
        None => {}
        Some(Value::Array(calls)) => calls.iter_mut().for_each(parse_arguments),
        Some(other) => return Err(bad(".tool_calls", "a list", other)),
    }
    Ok(Value::Object(message))
}

/// The text of a `content`: parts are joined by line breaks.
fn text_of(index: usize, content: &Value) -> Result<String> {
    let parts = match content {
        Value::Null => return Ok(String::new()),
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        other => {
            return Err(Error::Message {
                index,
                at: ".content".into(),
                expected: "a text, a list of parts, or null",
                found: brief(other),
            });
        }
    };
    let texts = parts.iter().enumerate().map(|(at, part)| {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
        let key = if kind == "refusal" { "refusal" } else { "text" };
        let at = || format!(".content[{at}]");
        match (kind, part.get(key), part) {
            ("text" | "input_text" | "output_text" | "refusal", Some(Value::String(text)), _) => Ok(text.as_str()),
            (_, _, Value::String(text)) => Ok(text.as_str()),
            ("text" | "input_text" | "output_text" | "refusal", _, _) => {
                Err(Error::Message { index, at: at(), expected: "a part with a text", found: brief(part) })
            }
            _ => Err(Error::Part { index, at: at(), found: kind.to_owned() }),
        }
    });
    Ok(texts.collect::<Result<Vec<_>>>()?.join("\n"))
}

/// Arguments that are the text of a JSON object become that object; no arguments at all become an empty one.
fn parse_arguments(call: &mut Value) {
    let holder = if call.get("function").is_some() { call.get_mut("function") } else { Some(call) };
    let Some(arguments) = holder.and_then(|h| h.get_mut("arguments")) else { return };
    let Value::String(text) = arguments else { return };
    if text.trim().is_empty() {
        *arguments = json!({});
    } else if let Ok(Value::Object(map)) = serde_json::from_str(text) {
        *arguments = Value::Object(map);
    }
}

/// Marks the end of the last message's text.
fn mark_final(messages: &mut [Value]) -> Result<()> {
    let Some(last) = messages.last_mut().filter(|m| m["role"] == "assistant") else {
        return Err(Error::Continue { reason: "it is not the assistant's" });
    };
    let text = last["content"].as_str().unwrap_or_default().to_owned() + CONTINUE_TAG;
    last["content"] = text.into();
    Ok(())
}

/// Cuts the prompt at the mark. A template that trims messages has taken the mark's space, and so the
/// text's own end is trimmed too.
fn cut_final(text: &str) -> Result<String> {
    let Some(at) = text.rfind(CONTINUE_TAG.trim_end()) else {
        return Err(Error::Continue { reason: "the chat template does not write it" });
    };
    let kept = &text[..at];
    Ok(if text[at..].starts_with(CONTINUE_TAG) { kept } else { kept.trim_end() }.to_owned())
}

/// A value for a message: its kind, or itself when short.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 60 {
        return text;
    }
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "a list".into(),
        _ => "a long text".into(),
    }
}

#[cfg(test)]
mod tests;
