//! The messages of a chat as OpenAI's API defines them; a fault is named down to the field.
//!
//! What stands inside a content's parts is looked at where it is read (`omlx-text`). Fields that nobody knows are left to the
//! chat template.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::words::shown;

/// Who may speak.
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Checks all messages. An assistant's refusal without a content becomes its content, as templates know no other.
pub(super) fn check(messages: &mut [Value]) -> Result<(), Error> {
    if messages.is_empty() {
        return Err(range("messages".to_owned(), "at least one message", "none".to_owned()));
    }
    for (index, message) in messages.iter_mut().enumerate() {
        let at = format!("messages[{index}]");
        let Value::Object(message) = message else {
            return Err(range(at, "an object", shown(message)));
        };
        let assistant = role(&at, message)? == "assistant";
        if assistant && given(message, "content").is_none() && message.get("refusal").is_some_and(Value::is_string) {
            let refusal = message["refusal"].clone();
            message.insert("content".to_owned(), refusal);
        }
        let calls = assistant && calls(&at, message)?;
        content(&at, message, calls)?;
        for field in ["name", "tool_call_id"] {
            if let Some(value) = given(message, field).filter(|value| !value.is_string()) {
                return Err(range(format!("{at}.{field}"), "a string", shown(value)));
            }
        }
    }
    Ok(())
}

fn role<'a>(at: &str, message: &'a Map<String, Value>) -> Result<&'a str, Error> {
    let at = format!("{at}.role");
    match given(message, "role") {
        None => Err(Error::Missing(at.into())),
        Some(Value::String(role)) if ROLES.contains(&role.as_str()) => Ok(role),
        Some(other) => Err(range(at, &format!("one of {}", ROLES.join(", ")), shown(other))),
    }
}

/// Whether an assistant's message holds calls, which may stand instead of a content.
fn calls(at: &str, message: &Map<String, Value>) -> Result<bool, Error> {
    if given(message, "audio").is_some() {
        let param = format!("{at}.audio").into();
        return Err(Error::Unsupported { param, way_out: "this server reads text only; send the words as `content`" });
    }
    let named = |call: &Value| call.get("function").unwrap_or(call).get("name").is_some_and(Value::is_string);
    let tools = match given(message, "tool_calls") {
        None => false,
        Some(Value::Array(calls)) => match calls.iter().position(|call| !named(call)) {
            Some(bad) => {
                let at = format!("{at}.tool_calls[{bad}]");
                return Err(range(at, "an object with a function and its name", shown(&calls[bad])));
            }
            None => !calls.is_empty(),
        },
        Some(other) => return Err(range(format!("{at}.tool_calls"), "a list", shown(other))),
    };
    match given(message, "function_call") {
        Some(call) if !named(call) => {
            Err(range(format!("{at}.function_call"), "an object with a function's name", shown(call)))
        }
        call => Ok(tools || call.is_some()),
    }
}

fn content(at: &str, message: &Map<String, Value>, calls: bool) -> Result<(), Error> {
    let at = format!("{at}.content");
    match given(message, "content") {
        None if calls => Ok(()),
        None => Err(Error::Missing(at.into())),
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) if !parts.is_empty() => {
            let kind = |part: &Value| part.get("type").filter(|kind| !kind.is_null() && !kind.is_string()).map(shown);
            match parts.iter().enumerate().find_map(|(i, part)| Some((i, kind(part)?))) {
                Some((i, found)) => Err(range(format!("{at}[{i}].type"), "a string", found)),
                None => Ok(()),
            }
        }
        Some(other) => Err(range(at, "a string or a list of at least one part", shown(other))),
    }
}

/// A field's value; `null` is as good as none.
fn given<'a>(message: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    message.get(field).filter(|value| !value.is_null())
}

fn range(param: String, expected: &str, found: String) -> Error {
    Error::Range { param, expected: expected.to_owned(), found }
}
