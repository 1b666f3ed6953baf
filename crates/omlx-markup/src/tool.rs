//! The tools of a request, as far as they say how an argument is to be read.

use serde_json::Value;

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The JSON schema of its arguments; null where it has none.
    pub parameters: Value,
}

impl Tool {
    /// From a tool as OpenAI's API writes it (`{"type": "function", "function": {..}}`), or its inside alone.
    pub fn of_wire(tool: &Value) -> Option<Self> {
        let function = tool.get("function").unwrap_or(tool);
        let name = function.get("name")?.as_str()?.to_owned();
        Some(Self { name, parameters: function.get("parameters").cloned().unwrap_or_default() })
    }
}

/// How a parameter's text becomes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is a string, whatever it looks like.
    Text,
    /// It is JSON if it can be read so, else a string.
    Json,
}

/// What a tool's schema says of a parameter.
pub(crate) fn kind(tools: &[Tool], tool: &str, parameter: &str) -> Kind {
    let schema = tools
        .iter()
        .find(|known| known.name == tool)
        .and_then(|known| known.parameters.get("properties")?.get(parameter));
    if schema.is_some_and(is_text) { Kind::Text } else { Kind::Json }
}

/// Whether a schema allows strings and nothing else.
fn is_text(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => return kind == "string",
        Some(Value::Array(kinds)) => return !kinds.is_empty() && kinds.iter().all(|kind| kind == "string"),
        _ => {}
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().all(Value::is_string);
    }
    ["anyOf", "oneOf"]
        .iter()
        .filter_map(|key| schema.get(key)?.as_array())
        .any(|options| !options.is_empty() && options.iter().all(is_text))
}

/// The text of a parameter that need not be a string, as JSON. Models write Python's words for three values.
pub(crate) fn as_json(text: &str) -> String {
    let trimmed = text.trim();
    match trimmed {
        "True" => return "true".to_owned(),
        "False" => return "false".to_owned(),
        "None" => return "null".to_owned(),
        _ => {}
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(trimmed) {
        Ok(_) => trimmed.to_owned(),
        Err(_) => crate::span::quoted(text),
    }
}

/// Whether this can be a tool's name.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '$');
    !name.is_empty() && name.len() <= 256 && name.chars().all(fits)
}
