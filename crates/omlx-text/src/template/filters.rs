//! Filters and globals of Jinja2 that the engine does not have, has otherwise, or does not bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::filters as engine;
use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State};

use crate::template::arguments::Arguments;
use crate::template::numbers::{float, whole};
use crate::template::pad::{Side, pad};
use crate::template::text::{repr, text};
use crate::template::{list, operators, percent, python, wrap};

/// Adds them.
pub(crate) fn install(env: &mut Environment<'_>) {
    env.add_filter("format", percent::filter);
    env.add_filter("string", |state: &State, value: &Value| {
        if value.as_str().is_some() { Ok(value.clone()) } else { text(state, value).map(Value::from) }
    });
    env.add_filter("pprint", repr);
    env.add_filter("forceescape", |state: &State, value: &Value| {
        text(state, value).map(|text| python::escape(&Value::from(text)))
    });
    env.add_filter("wordcount", |state: &State, value: &Value| text(state, value).map(|text| words(&text)));
    env.add_filter("truncate", truncate);
    env.add_filter("center", |state: &State, value: &Value, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of(args)?;
        let (text, width) = (text(state, value)?, args.count(0, "width", 80)?);
        args.end(1)?;
        pad(state, &text, width, " ", Side::Both)
    });
    env.add_filter("wordwrap", wrap::wordwrap);
    env.add_filter("urlencode", urlencode);
    env.add_filter("striptags", |state: &State, value: &Value| {
        text(state, value).map(minijinja_contrib::filters::striptags)
    });
    env.add_filter("filesizeformat", |value: f64, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of(args)?;
        Ok::<_, Error>(minijinja_contrib::filters::filesizeformat(value.trunc(), Some(args.flag(0, "binary", false)?)))
    });
    env.add_filter("xmlattr", xmlattr);
    env.add_filter("sum", sum);
    env.add_filter("reverse", reverse);
    env.add_filter("join", join);
    env.add_filter("indent", indent);
    env.add_filter("int", |state: &State, value: &Value, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of(args)?;
        let (default, base) = (args.value(0, "default")?, args.count(1, "base", 10)?);
        args.end(2)?;
        whole(state, value, base).map(|number| number.or(default).unwrap_or(Value::from(0)))
    });
    env.add_filter("float", |state: &State, value: &Value, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of(args)?;
        let default = args.value(0, "default")?;
        args.end(1)?;
        float(state, value).map(|number| number.map(Value::from).or(default).unwrap_or(Value::from(0.0)))
    });
    env.add_filter("dictsort", |map: &Value, args: Rest<ValueOrKwargs>| {
        let args = Arguments::of(args)?;
        let mut named = Vec::new();
        for (at, name) in ["case_sensitive", "by", "reverse"].into_iter().enumerate() {
            named.extend(args.value(at, name)?.map(|value| (name, value)));
        }
        args.end(3)?;
        engine::dictsort(map, Kwargs::from_iter(named))
    });
    // These nest lists in lists.
    env.add_filter("batch", |state: &State, list: Value, count: usize, fill: Option<Value>| {
        list::admit(state, engine::batch(state, list, count, fill)?)
    });
    env.add_filter("slice", |state: &State, list: Value, count: usize, fill: Option<Value>| {
        list::admit(state, engine::slice(state, list, count, fill)?)
    });
    env.add_filter("groupby", |state: &State, list: Value, attribute: Option<&str>, kwargs: Kwargs| {
        list::admit(state, engine::groupby(list, attribute, kwargs)?)
    });
    // Not in Jinja2, and without bounds.
    env.remove_filter("zip");
    env.remove_filter("chain");
    env.remove_global("debug");
    env.add_function("cycler", cycler);
    env.add_function("joiner", minijinja_contrib::globals::joiner);
    env.add_test("callable", is_callable);
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, reason.into()))
}

fn words(text: &str) -> usize {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).count()
}

fn truncate(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = Arguments::of(args)?;
    let length = args.count(0, "length", 255)?;
    let kill = args.flag(1, "killwords", false)?;
    let end = args.text(state, 2, "end", "...")?;
    let leeway = args.count(3, "leeway", 5)?;
    args.end(4)?;
    let text = text(state, value)?;
    let dots = end.chars().count();
    if length < dots {
        return refuse(format!("truncate: a length of {length} has no room for the end of {dots}"));
    }
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let cut: String = text.chars().take(length - dots).collect();
    let kept = if kill { cut.as_str() } else { cut.rsplit_once(' ').map_or(cut.as_str(), |(kept, _)| kept) };
    Ok(format!("{kept}{end}"))
}

fn urlencode(state: &State, value: &Value) -> Result<String, Error> {
    if value.as_str().is_some() || !matches!(value.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable) {
        return Ok(percent_encode(&text(state, value)?, false));
    }
    let mut pairs = Vec::new();
    for item in value.try_iter()? {
        let (key, held) = if value.kind() == ValueKind::Map {
            (item.clone(), value.get_item(&item)?)
        } else {
            (item.get_item_by_index(0)?, item.get_item_by_index(1)?)
        };
        let encode = |value: &Value| text(state, value).map(|text| percent_encode(&text, true));
        pairs.push(format!("{}={}", encode(&key)?, encode(&held)?));
    }
    Ok(pairs.join("&"))
}

/// In a query a space is a plus, and a slash is no separator.
fn percent_encode(text: &str, query: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(byte)),
            b'/' if !query => out.push('/'),
            b' ' if query => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn xmlattr(state: &State, map: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = Arguments::of(args)?;
    let space = args.flag(0, "autospace", true)?;
    let mut written = Vec::new();
    for key in map.try_iter()? {
        let value = map.get_item(&key)?;
        if value.is_none() || value.is_undefined() {
            continue;
        }
        let name = text(state, &key)?;
        if name.contains(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>' | '=')) {
            return refuse(format!("xmlattr: {name:?} is no name of an attribute"));
        }
        let value = if value.as_str().is_some() { value } else { Value::from(text(state, &value)?) };
        written.push(format!("{}=\"{}\"", python::escape(&Value::from(name)), python::escape(&value)));
    }
    let written = written.join(" ");
    Ok(if space && !written.is_empty() { format!(" {written}") } else { written })
}

/// Sums by our `+`.
fn sum(state: &State, values: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = Arguments::of(args)?;
    let attribute = args.value(0, "attribute")?.filter(|name| !name.is_none());
    let mut total = args.value(1, "start")?.unwrap_or(Value::from(0));
    args.end(2)?;
    for item in list::collect(state, values)? {
        let item = match &attribute {
            Some(name) => item.get_item(name)?,
            None => item,
        };
        total = operators::add(state, &total, &item)?;
    }
    Ok(total)
}

fn reverse(state: &State, value: &Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items = list::collect(state, value)?;
    items.reverse();
    list::build(state, items)
}

fn join(state: &State, values: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = Arguments::of(args)?;
    let between = args.text(state, 0, "d", "")?;
    let attribute = args.value(1, "attribute")?.filter(|name| !name.is_none());
    args.end(2)?;
    joined(state, values, &between, attribute.as_ref())
}

/// Items as texts, with another between them.
pub(crate) fn joined(state: &State, values: &Value, between: &str, attribute: Option<&Value>) -> Result<String, Error> {
    let mut joined = String::new();
    for (at, item) in values.try_iter()?.enumerate() {
        if at > 0 {
            state.consume_fuel(between.len() as u64 / 64)?;
            joined.push_str(between);
        }
        let item = match attribute {
            Some(name) => item.get_item(name)?,
            None => item,
        };
        state.consume_fuel(1)?;
        joined.push_str(&text(state, &item)?);
    }
    Ok(joined)
}

/// Lines of a text, moved to the right by a number of spaces or by a text.
fn indent(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = Arguments::of(args)?;
    let width = args.value(0, "width")?.unwrap_or(Value::from(4));
    let (first, blank) = (args.flag(1, "first", false)?, args.flag(2, "blank", false)?);
    args.end(3)?;
    let source = text(state, value)?;
    let lines = source.split('\n').count() as u64;
    let width = match width.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let spaces = usize::try_from(i64::try_from(width)?).unwrap_or(0);
            state.consume_fuel((spaces as u64).saturating_mul(lines) / 64)?;
            " ".repeat(spaces)
        }
    };
    state.consume_fuel((width.len() as u64).saturating_mul(lines) / 64)?;
    let mut out = String::new();
    for (at, line) in source.split('\n').enumerate() {
        out.push_str(if at == 0 { "" } else { "\n" });
        if if at == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&width);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Macros, functions, and whatever else may be called.
fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain && value.as_object().is_some()
}

/// `cycler(...)`: `next()`, `current`, `reset()`.
#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

#[expect(clippy::needless_pass_by_value, reason = "the engine hands over owned argument lists")]
fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    if items.is_empty() {
        return refuse("cycler: at least one item is needed");
    }
    Ok(Value::from_object(Cycler { items: items.to_vec(), at: AtomicUsize::new(0) }))
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.items[self.at.load(Ordering::Relaxed)].clone())
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, name: &str, _: &[Value]) -> Result<Value, Error> {
        match name {
            "next" => {
                let at = self.at.load(Ordering::Relaxed);
                self.at.store((at + 1) % self.items.len(), Ordering::Relaxed);
                Ok(self.items[at].clone())
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}
