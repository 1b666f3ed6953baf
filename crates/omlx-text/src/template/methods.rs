//! Methods of Python's texts that the engine's Python methods lack, have otherwise, or do not bound.

use minijinja::value::{Value, from_args};
use minijinja::{Error, ErrorKind, State};

use crate::template::arguments::Arguments;
use crate::template::pad::{Side, pad};
use crate::template::{filters, percent};

/// The result of a text's method; none where it is not one of these.
pub(crate) fn of_text(state: &State, text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let padded = |side| -> Result<Value, Error> {
        let args = Arguments::new(args)?;
        let (width, fill) = (args.count(0, "width", 0)?, args.text(state, 1, "fillchar", " ")?);
        args.end(2)?;
        pad(state, text, width, &fill, side)
    };
    let all = |test: &dyn Fn(char) -> bool| -> Result<Value, Error> {
        from_args::<()>(args)?;
        Ok(Value::from(!text.is_empty() && text.chars().all(test)))
    };
    Ok(Some(match name {
        "ljust" => padded(Side::Left)?,
        "rjust" => padded(Side::Right)?,
        "center" => padded(Side::Both)?,
        "zfill" => zfill(state, text, args)?,
        "expandtabs" => expand_tabs(state, text, args)?,
        "swapcase" => changed(text, args, swap_case)?,
        "casefold" => changed(text, args, |c, out| match c {
            'ß' | 'ẞ' => out.push_str("ss"),
            c => out.extend(c.to_lowercase()),
        })?,
        "title" => title(text, args)?,
        "translate" => translate(text, args)?,
        "encode" => Value::from_bytes(text.as_bytes().to_vec()),
        "splitlines" => split_lines(state, text, args)?,
        "isdecimal" => all(&|c| c.is_ascii_digit())?,
        "isnumeric" => all(&char::is_numeric)?,
        "isdigit" => all(&|c| c.is_ascii_digit() || matches!(c, '²' | '³' | '¹' | '⁰'..='⁹' | '₀'..='₉'))?,
        "isprintable" => Value::from(!text.chars().any(|c| c.is_control() || c.is_whitespace() && c != ' ')),
        "isidentifier" => {
            let letter = |c: char| c == '_' || c.is_alphabetic();
            let first = text.chars().next().is_some_and(letter);
            Value::from(first && text.chars().all(|c| letter(c) || c.is_numeric()))
        }
        "istitle" => Value::from(is_title(text)),
        "rindex" => match text.rfind(from_args::<(&str,)>(args)?.0) {
            Some(at) => Value::from(text[..at].chars().count()),
            None => return Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
        },
        "format" => percent::braces(state, text, args)?,
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            Value::from(filters::joined(state, items, text, None)?)
        }
        _ => return Ok(None),
    }))
}

fn changed(text: &str, args: &[Value], change: impl Fn(char, &mut String)) -> Result<Value, Error> {
    from_args::<()>(args)?;
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| change(c, &mut out));
    Ok(Value::from(out))
}

fn swap_case(c: char, out: &mut String) {
    if c.is_uppercase() { out.extend(c.to_lowercase()) } else { out.extend(c.to_uppercase()) }
}

/// A capital after everything that is no letter, an apostrophe included.
fn title(text: &str, args: &[Value]) -> Result<Value, Error> {
    from_args::<()>(args)?;
    let (mut out, mut within) = (String::with_capacity(text.len()), false);
    for c in text.chars() {
        if within {
            out.extend(c.to_lowercase())
        } else {
            out.extend(c.to_uppercase())
        }
        within = c.is_alphabetic();
    }
    Ok(Value::from(out))
}

fn is_title(text: &str) -> bool {
    let (mut within, mut any) = (false, false);
    for c in text.chars() {
        // a capital within a word, or a small letter at its start
        if c.is_uppercase() == within && (c.is_uppercase() || c.is_lowercase()) {
            return false;
        }
        within = c.is_uppercase() || c.is_lowercase();
        any |= within;
    }
    any
}

fn zfill(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let (width,): (i64,) = from_args(args)?;
    let (sign, digits) = if text.starts_with(['+', '-']) { text.split_at(1) } else { ("", text) };
    let width = usize::try_from(width).unwrap_or(0).saturating_sub(sign.len());
    let padded = pad(state, digits, width, "0", Side::Right)?;
    Ok(Value::from(format!("{sign}{padded}")))
}

fn expand_tabs(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::new(args)?;
    let size = args.count(0, "tabsize", 8)?;
    args.end(1)?;
    let most = (text.matches('\t').count() as u64).saturating_mul(size as u64);
    state.consume_fuel(most / 64)?;
    let (mut out, mut column) = (String::with_capacity(text.len()), 0);
    for c in text.chars() {
        match c {
            '\t' => {
                let fill = if size == 0 { 0 } else { size - column % size };
                out.extend(std::iter::repeat_n(' ', fill));
                column += fill;
            }
            c => {
                out.push(c);
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    Ok(Value::from(out))
}

/// By a dict of code points: to a text, to a code point, or to none for "leave out".
fn translate(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (table,): (&Value,) = from_args(args)?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let to = table.get_item(&Value::from(u32::from(c)))?;
        match (to.as_str(), u32::try_from(to.clone()).ok().and_then(char::from_u32)) {
            (Some(to), _) => out.push_str(to),
            (None, Some(to)) => out.push(to),
            (None, None) if to.is_none() => {}
            (None, None) => out.push(c),
        }
    }
    Ok(Value::from(out))
}

fn split_lines(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::new(args)?;
    let keep = args.flag(0, "keepends", false)?;
    args.end(1)?;
    let (mut lines, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end =
            rest.find(['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}']);
        let end = end.unwrap_or(rest.len());
        let mark =
            if rest[end..].starts_with("\r\n") { 2 } else { rest[end..].chars().next().map_or(0, char::len_utf8) };
        lines.push(Value::from(&rest[..if keep { end + mark } else { end }]));
        rest = &rest[end + mark..];
    }
    crate::template::list::build(state, lines)
}
