//! `tojson` as Python's `json.dumps` writes it: key order kept, no HTML escapes, Python's numbers.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use crate::template::list::MAX_DEPTH;

/// `value | tojson(ensure_ascii, indent, separators, sort_keys)`.
#[expect(clippy::needless_pass_by_value, reason = "the engine hands over owned argument lists")]
pub(crate) fn to_json(state: &State, value: &Value, positional: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let argument = |at: usize, name: &str| -> Result<Option<Value>, Error> {
        let given: Option<Value> = kwargs.get(name)?;
        Ok(given.or_else(|| positional.get(at).cloned()).filter(|v| !v.is_none()))
    };
    let ensure_ascii = argument(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = argument(1, "indent")?.map(|v| indent_text(&v)).transpose()?;
    let separators = argument(2, "separators")?.map(|v| pair(&v)).transpose()?;
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let default = if indent.is_some() { (",", ": ") } else { (", ", ": ") };
    let (comma, colon) = separators.unwrap_or((default.0.into(), default.1.into()));
    let mut writer = Writer { state, out: String::new(), ensure_ascii, indent, comma, colon, sort_keys, depth: 0 };
    writer.value(value)?;
    Ok(Value::from(writer.out))
}

/// Roughly how many bytes a value has when written, without writing it.
pub(crate) fn size(value: &serde_json::Value) -> u64 {
    match value {
        serde_json::Value::String(text) => text.len() as u64 + 2,
        serde_json::Value::Array(items) => items.iter().map(|v| size(v) + 2).sum(),
        serde_json::Value::Object(map) => map.iter().map(|(k, v)| k.len() as u64 + 4 + size(v)).sum(),
        _ => 8,
    }
}

/// Spaces for a count, or the text itself.
fn indent_text(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let count = i64::try_from(value.clone())?;
    // Python writes negative indents as none
    usize::try_from(count.max(0))
        .ok()
        .filter(|n| *n <= 64)
        .map(|n| " ".repeat(n))
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("tojson: indent {count} is more than 64")))
}

fn pair(value: &Value) -> Result<(String, String), Error> {
    let items: Vec<Value> = value.try_iter()?.take(3).collect();
    match items.iter().map(Value::as_str).collect::<Vec<_>>()[..] {
        [Some(comma), Some(colon)] => Ok((comma.to_owned(), colon.to_owned())),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators should be two texts")),
    }
}

struct Writer<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    out: String,
    ensure_ascii: bool,
    indent: Option<String>,
    comma: String,
    colon: String,
    sort_keys: bool,
    depth: u32,
}

impl Writer<'_, '_, '_> {
    fn value(&mut self, value: &Value) -> Result<(), Error> {
        self.state.consume_fuel(1)?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value),
            ValueKind::String => self.string(value.as_str().unwrap_or_default())?,
            ValueKind::Map => self.map(value)?,
            ValueKind::Seq | ValueKind::Iterable => self.seq(value)?,
            kind => {
                return Err(Error::new(
                    ErrorKind::BadSerialization,
                    format!("a value of type {kind} is not JSON serializable"),
                ));
            }
        }
        Ok(())
    }

    fn number(&mut self, value: &Value) {
        match f64::try_from(value.clone()) {
            Ok(float) if !value.is_integer() => self.out.push_str(&python_float(float)),
            _ => self.out.push_str(&value.to_string()),
        }
    }

    fn seq(&mut self, value: &Value) -> Result<(), Error> {
        self.open('[')?;
        let mut empty = true;
        for item in value.try_iter()? {
            self.next(&mut empty);
            self.value(&item)?;
        }
        self.close(']', empty);
        Ok(())
    }

    fn map(&mut self, value: &Value) -> Result<(), Error> {
        self.open('{')?;
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        let mut empty = true;
        for key in keys {
            self.next(&mut empty);
            match key.kind() {
                ValueKind::String => self.string(key.as_str().unwrap_or_default())?,
                ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                    self.out.push('"');
                    self.value(&key)?;
                    self.out.push('"');
                }
                kind => {
                    return Err(Error::new(
                        ErrorKind::BadSerialization,
                        format!("a JSON key cannot be of type {kind}"),
                    ));
                }
            }
            self.out.push_str(&self.colon);
            self.value(&value.get_item(&key)?)?;
        }
        self.close('}', empty);
        Ok(())
    }

    fn open(&mut self, bracket: char) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::BadSerialization, format!("tojson: nested deeper than {MAX_DEPTH}")));
        }
        self.out.push(bracket);
        Ok(())
    }

    /// Begins the next item of a list or map.
    fn next(&mut self, empty: &mut bool) {
        if !std::mem::replace(empty, false) {
            self.out.push_str(&self.comma);
        }
        self.line();
    }

    fn close(&mut self, bracket: char, empty: bool) {
        self.depth -= 1;
        if !empty {
            self.line();
        }
        self.out.push(bracket);
    }

    fn line(&mut self) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..self.depth {
                self.out.push_str(indent);
            }
        }
    }

    fn string(&mut self, text: &str) -> Result<(), Error> {
        self.state.consume_fuel(text.len() as u64 / 64)?;
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
        Ok(())
    }
}

/// A float as Python's `repr` writes it: shortest digits, an exponent below 1e-4 and from 1e16 on.
pub(crate) fn python_float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value:?}")
}
