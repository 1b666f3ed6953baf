//! Values as Python's `str` and `repr` write them, within the budget.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use crate::template::json::python_float;
use crate::template::list::MAX_DEPTH;
use crate::template::range::Range;

/// `str(value)`; what is not defined is empty.
pub(crate) fn text(state: &State, value: &Value) -> Result<String, Error> {
    let mut writer = Writer { state, out: String::new(), depth: 0 };
    match value.as_str() {
        Some(text) => {
            state.consume_fuel(text.len() as u64 / 64)?;
            writer.out.push_str(text);
        }
        None if value.is_undefined() => {}
        None => writer.repr(value)?,
    }
    Ok(writer.out)
}

/// `repr(value)`.
pub(crate) fn repr(state: &State, value: &Value) -> Result<String, Error> {
    let mut writer = Writer { state, out: String::new(), depth: 0 };
    writer.repr(value)?;
    Ok(writer.out)
}

struct Writer<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    out: String,
    depth: u32,
}

impl Writer<'_, '_, '_> {
    fn repr(&mut self, value: &Value) -> Result<(), Error> {
        self.state.consume_fuel(1)?;
        if let Some(text) = value.as_str() {
            return self.quoted(text, value.is_safe());
        }
        if let Some(range) = value.downcast_object_ref::<Range>() {
            self.out.push_str(&range.to_string());
            return Ok(());
        }
        match value.kind() {
            ValueKind::Undefined => self.out.push_str("Undefined"),
            ValueKind::Number if !value.is_integer() => self.float(value),
            ValueKind::Seq if value.is_tuple() => {
                self.items('(', value)?;
                self.out.push_str(if value.len() == Some(1) { ",)" } else { ")" });
            }
            ValueKind::Seq | ValueKind::Iterable => {
                self.items('[', value)?;
                self.out.push(']');
            }
            ValueKind::Map => self.map(value)?,
            _ => self.out.push_str(&value.to_string()),
        }
        Ok(())
    }

    fn float(&mut self, value: &Value) {
        match f64::try_from(value.clone()) {
            Ok(float) if float.is_finite() => self.out.push_str(&python_float(float)),
            Ok(float) if float.is_nan() => self.out.push_str("nan"),
            Ok(float) => self.out.push_str(if float > 0.0 { "inf" } else { "-inf" }),
            Err(_) => self.out.push_str(&value.to_string()),
        }
    }

    fn items(&mut self, bracket: char, list: &Value) -> Result<(), Error> {
        self.open(bracket)?;
        for (at, item) in list.try_iter()?.enumerate() {
            self.out.push_str(if at == 0 { "" } else { ", " });
            self.repr(&item)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn map(&mut self, map: &Value) -> Result<(), Error> {
        self.open('{')?;
        for (at, key) in map.try_iter()?.enumerate() {
            self.out.push_str(if at == 0 { "" } else { ", " });
            self.repr(&key)?;
            self.out.push_str(": ");
            self.repr(&map.get_item(&key)?)?;
        }
        self.depth -= 1;
        self.out.push('}');
        Ok(())
    }

    fn open(&mut self, bracket: char) -> Result<(), Error> {
        self.depth += 1;
        self.out.push(bracket);
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidOperation, format!("a value nested deeper than {MAX_DEPTH}")))
    }

    fn quoted(&mut self, text: &str, safe: bool) -> Result<(), Error> {
        self.state.consume_fuel(text.len() as u64 / 64)?;
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        self.out.push_str(if safe { "Markup(" } else { "" });
        self.out.push(quote);
        for c in text.chars() {
            match c {
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\\' => self.out.push_str("\\\\"),
                c if c == quote => self.out.extend(['\\', c]),
                '\0'..='\x1f' | '\x7f'..='\u{a0}' | '\u{ad}' => {
                    self.out.push_str(&format!("\\x{:02x}", u32::from(c)));
                }
                c => self.out.push(c),
            }
        }
        self.out.push(quote);
        self.out.push_str(if safe { ")" } else { "" });
        Ok(())
    }
}
