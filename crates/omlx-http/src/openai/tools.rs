//! The tools of a chat: what may be offered, and what the model may do with it.
//!
//! A call cannot be forced yet, nor its arguments held to a schema: both are refused by name and not taken for a wish.

use serde_json::{Value, json};

use crate::error::Error;
use crate::offer::Offer;
use crate::words::shown;

/// Most tools, as in OpenAI's API.
const MOST_TOOLS: usize = 128;
/// Bytes of a tool's name, as in OpenAI's API.
const MOST_NAME_BYTES: usize = 64;

const FORCED: &str = "an answer cannot be made to call a tool yet; use \"auto\" or \"none\", or leave it out";
const STRICT: &str = "arguments are not held to a schema yet; leave it out or send false";

/// What a chat offers.
pub(super) fn offer(tools: Option<Vec<Value>>, choice: Option<&Value>, parallel: Option<bool>) -> Result<Offer, Error> {
    let tools = tools.unwrap_or_default();
    if tools.len() > MOST_TOOLS {
        return Err(range("tools".to_owned(), format!("at most {MOST_TOOLS} tools"), tools.len().to_string()));
    }
    let wire = tools.iter().enumerate().map(|(i, tool)| checked(i, tool)).collect::<Result<Vec<_>, _>>()?;
    let wire = if offered(choice, wire.is_empty())? { wire } else { Vec::new() };
    Ok(Offer::of(wire, parallel == Some(false)))
}

/// Whether the model is to be told of the tools.
fn offered(choice: Option<&Value>, none: bool) -> Result<bool, Error> {
    let unsupported = || Err(Error::Unsupported { param: "tool_choice".into(), way_out: FORCED });
    match choice {
        None | Some(Value::Null) => Ok(true),
        Some(Value::String(word)) if word == "auto" => Ok(true),
        Some(Value::String(word)) if word == "none" => Ok(false),
        Some(Value::String(word)) if word == "required" => unsupported(),
        Some(Value::Object(_)) if none => {
            Err(range("tool_choice".to_owned(), "sent together with `tools`".to_owned(), "it alone".to_owned()))
        }
        Some(Value::Object(_)) => unsupported(),
        Some(other) => Err(range(
            "tool_choice".to_owned(),
            "\"none\", \"auto\", \"required\" or an object that names a tool".to_owned(),
            shown(other),
        )),
    }
}

/// One tool, with what templates ask for and clients leave out.
fn checked(index: usize, tool: &Value) -> Result<Value, Error> {
    let at = format!("tools[{index}]");
    if !tool.is_object() {
        return Err(range(at, "an object".to_owned(), shown(tool)));
    }
    if tool.get("type").unwrap_or(&Value::Null) != "function" {
        let param = format!("{at}.type").into();
        return Err(Error::Unsupported { param, way_out: "this server knows tools of type \"function\"" });
    }
    let Some(function) = tool.get("function").filter(|function| !function.is_null()) else {
        return Err(Error::Missing(format!("{at}.function").into()));
    };
    let Value::Object(function) = function else {
        return Err(range(format!("{at}.function"), "an object".to_owned(), shown(function)));
    };
    match function.get("name") {
        None | Some(Value::Null) => return Err(Error::Missing(format!("{at}.function.name").into())),
        Some(Value::String(name)) if is_name(name) => {}
        Some(other) => {
            let expected = format!("1 to {MOST_NAME_BYTES} letters, digits, `_` and `-`");
            return Err(range(format!("{at}.function.name"), expected, shown(other)));
        }
    }
    for (field, kind) in [("description", "a string"), ("parameters", "an object"), ("strict", "true or false")] {
        let fits = |value: &Value| match field {
            "description" => value.is_string(),
            "parameters" => value.is_object(),
            _ => value.is_boolean(),
        };
        if let Some(value) = function.get(field).filter(|value| !value.is_null() && !fits(value)) {
            return Err(range(format!("{at}.function.{field}"), kind.to_owned(), shown(value)));
        }
    }
    if function.get("strict") == Some(&Value::Bool(true)) {
        return Err(Error::Unsupported { param: format!("{at}.function.strict").into(), way_out: STRICT });
    }
    let mut function = function.clone();
    function.retain(|key, value| !value.is_null() && key != "strict");
    function.entry("description").or_insert_with(|| "".into());
    function.entry("parameters").or_insert_with(|| json!({"type": "object", "properties": {}}));
    Ok(json!({"type": "function", "function": function}))
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MOST_NAME_BYTES).contains(&name.len()) && name.bytes().all(fits)
}

fn range(param: String, expected: String, found: String) -> Error {
    Error::Range { param, expected, found }
}
