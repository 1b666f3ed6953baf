//! A field of the wrong type, said in the words of JSON and of the API instead of Rust's.

use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::error::Error;

/// A longer value is described and not repeated.
const MOST_CHARS: usize = 60;

/// The error for a fault that was found while `body` was read.
pub(crate) fn of(body: &Value, fault: serde_path_to_error::Error<serde_json::Error>) -> Error {
    let (param, value) = (fault.path().to_string(), at(body, fault.path()));
    let source = fault.into_inner();
    let text = source.to_string();
    if let Some(field) = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
        return Error::Missing(format!("{param}.{field}").into());
    }
    // Values may hold the word too, but they come before it.
    match (text.rsplit_once("expected "), value) {
        (Some((_, expected)), Some(value)) => {
            Error::Range { param, expected: in_words(expected).to_owned(), found: shown(value) }
        }
        _ => Error::Field { param, source },
    }
}

/// The value at a path, as far as it leads.
fn at<'a>(body: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(body, |value, step| match step {
        Segment::Seq { index } => value.get(index),
        Segment::Map { key } => value.get(key),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    })
}

fn in_words(expected: &str) -> &str {
    match expected {
        "f32" | "f64" => "a number",
        "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i32" | "i64" => "a whole number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        other => other,
    }
}

/// A value for a message: itself where it is short, else its kind and size.
pub(crate) fn shown(value: &Value) -> String {
    let long = match value {
        Value::String(text) => format!("a string of {} bytes", text.len()),
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(_) => "a large object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => return value.to_string(),
    };
    let text = value.to_string();
    if text.chars().count() <= MOST_CHARS { text } else { long }
}
