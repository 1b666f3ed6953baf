//! Python habits that templates rely on and minijinja does not have by itself.

use minijinja::value::{Kwargs, Tuple, Value, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, State, functions};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::template::{list, methods};

/// A refusal by `raise_exception`, carried through the engine's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

/// `raise_exception(message)`.
pub(crate) fn raise(message: &Value) -> Result<Value, Error> {
    let message = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Refusal(message)))
}

/// The template's own words, if the error is its refusal.
pub(crate) fn refusal(error: &Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(Refusal(message)) = error.downcast_ref() {
            return Some(message.clone());
        }
        cause = error.source();
    }
    None
}

/// `namespace(...)`, which may not hold more than a list may.
pub(crate) fn namespace(state: &State, values: Option<ValueOrKwargs>) -> Result<Value, Error> {
    list::admit(state, functions::namespace(values)?)
}

/// `dict(...)`
pub(crate) fn dict(state: &State, first: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    list::admit(state, functions::dict(first, named)?)
}

/// What went wrong, without the template's file name.
pub(crate) fn reason(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// `is iterable`: templates ask it before they take a length, so none must say no.
pub(crate) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// `is sequence`: in Jinja2 texts and maps are sequences too.
pub(crate) fn is_sequence(value: &Value) -> bool {
    let kind = value.kind();
    matches!(kind, ValueKind::Undefined | ValueKind::Seq | ValueKind::Map | ValueKind::String)
}

/// `escape` with the entities that Jinja2 writes.
pub(crate) fn escape(value: &Value) -> Value {
    if value.is_safe() {
        return value.clone();
    }
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    Value::from_safe_string(out)
}

/// Methods of Python values: those of minijinja-contrib, and those it lacks.
pub(crate) fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match (value.as_str(), value.kind()) {
        (Some(text), _) => match methods::of_text(state, text, name, args)? {
            Some(result) => Some(result),
            None => string_method(text, name, args)?,
        },
        (None, ValueKind::Map | ValueKind::Seq) if name == "copy" => Some(value.clone()),
        (None, ValueKind::Seq) if name == "index" => Some(index_of(value, args)?),
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => unknown_method_callback(state, value, name, args),
    }
}

/// `list.index(item)`.
fn index_of(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let (wanted,): (&Value,) = from_args(args)?;
    let at = list.try_iter()?.position(|item| item == *wanted);
    at.map(Value::from).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "the value is not in the list"))
}

/// The only argument, a text.
fn one(args: &[Value]) -> Result<&str, Error> {
    from_args::<(&str,)>(args).map(|(arg,)| arg)
}

fn string_method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "removeprefix" => Value::from(text.strip_prefix(one(args)?).unwrap_or(text)),
        "removesuffix" => Value::from(text.strip_suffix(one(args)?).unwrap_or(text)),
        "partition" => {
            let separator = one(args)?;
            let (before, after) = text.split_once(separator).unwrap_or((text, ""));
            let found = if before.len() == text.len() { "" } else { separator };
            Value::from(Tuple::from([before, found, after].map(Value::from)))
        }
        "rpartition" => {
            let separator = one(args)?;
            let (before, after) = text.rsplit_once(separator).unwrap_or(("", text));
            let found = if after.len() == text.len() { "" } else { separator };
            Value::from(Tuple::from([before, found, after].map(Value::from)))
        }
        "rsplit" => {
            let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
            // A negative count means no limit, as in Python.
            let parts = most.and_then(|n| usize::try_from(n).ok()).map_or(usize::MAX, |n| n.saturating_add(1));
            let mut split: Vec<&str> = match separator {
                Some(separator) => text.rsplitn(parts, separator).collect(),
                None => rsplit_whitespace(text, parts),
            };
            split.reverse();
            split.into_iter().map(Value::from).collect()
        }
        "index" => {
            let at =
                text.find(one(args)?).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?;
            Value::from(text[..at].chars().count())
        }
        _ => return Ok(None),
    }))
}

/// The last `parts - 1` words and what stands before them, last first.
fn rsplit_whitespace(text: &str, parts: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let last = found.len() + 1 == parts;
        let at = if last { None } else { rest.rfind(char::is_whitespace) };
        let start = at.map_or(0, |at| at + rest[at..].chars().next().map_or(0, char::len_utf8));
        found.push(&rest[start..]);
        rest = rest[..start].trim_end();
    }
    found
}
