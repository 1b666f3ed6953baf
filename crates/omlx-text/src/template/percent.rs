//! Python's two format languages, each place of a pattern within the budget.
//!
//! The engine formats a single place as Python does; what it lacks is `%r`, Python's way of writing values, and a limit to widths.

use minijinja::formatting::{FormatStyle, format as engine};
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use crate::template::list;
use crate::template::text::{repr, text};

/// Wider places are refused: no prompt is padded to that many characters.
const MAX_WIDTH: usize = 10_000;

fn refuse<T>(reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, reason.into()))
}

/// The filter `format`: by place or by name.
#[expect(clippy::needless_pass_by_value, reason = "the engine hands over owned argument lists")]
pub(crate) fn filter(state: &State, pattern: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let names: Vec<&str> = kwargs.args().collect();
    if names.is_empty() {
        return format(state, pattern, &args);
    }
    if !args.is_empty() {
        return refuse("format: arguments by place and by name do not go together");
    }
    let named = names.into_iter().map(|name| Ok((name, kwargs.get::<Value>(name)?)));
    format(state, pattern, &[Value::from_pairs(named.collect::<Result<Vec<_>, Error>>()?)])
}

/// `pattern % args`.
pub(crate) fn format(state: &State, pattern: &Value, args: &[Value]) -> Result<Value, Error> {
    let Some(pattern) = pattern.as_str() else { return refuse("format: the pattern is not a text") };
    let (mut out, mut rest, mut args) = (String::new(), pattern, Args { all: args, next: 0, named: false });
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let place = Place::read(&mut rest, &mut args)?;
        let written = place.write(state, &mut args)?;
        state.consume_fuel(written.len() as u64 / 64 + 1)?;
        out.push_str(&written);
    }
    out.push_str(rest);
    let all = args.named || args.next >= args.all.len();
    if !all && args.all.first().is_none_or(|arg| arg.kind() != ValueKind::Map) {
        return refuse("format: not all arguments are used by the pattern");
    }
    Ok(Value::from(out))
}

struct Args<'a> {
    all: &'a [Value],
    next: usize,
    named: bool,
}

impl Args<'_> {
    fn next(&mut self) -> Result<Value, Error> {
        let arg = self.all.get(self.next).cloned();
        self.next += 1;
        arg.map_or_else(|| refuse("format: the pattern has more places than there are arguments"), Ok)
    }
}

/// One place of a pattern: `%(name)-5.2f`.
struct Place {
    name: Option<String>,
    flags: String,
    width: Option<usize>,
    precision: Option<usize>,
    kind: char,
}

impl Place {
    /// Reads what follows the percent sign.
    fn read(rest: &mut &str, args: &mut Args<'_>) -> Result<Self, Error> {
        let mut name = None;
        if let Some(after) = rest.strip_prefix('(') {
            let Some((inner, after)) = after.split_once(')') else { return refuse("format: a ( without )") };
            name = Some(inner.to_owned());
            *rest = after;
        }
        let flags = take(rest, |c| "#0- +".contains(c));
        let width = number(rest, args)?;
        let precision = match rest.strip_prefix('.') {
            Some(after) => {
                *rest = after;
                Some(number(rest, args)?.unwrap_or(0))
            }
            None => None,
        };
        take(rest, |c| "hlL".contains(c));
        let Some(kind) = rest.chars().next() else { return refuse("format: the pattern ends within a place") };
        *rest = &rest[kind.len_utf8()..];
        Ok(Self { name, flags, width, precision, kind })
    }

    fn write(&self, state: &State, args: &mut Args<'_>) -> Result<String, Error> {
        if self.kind == '%' {
            return Ok("%".to_owned());
        }
        let arg = match &self.name {
            Some(name) => {
                args.named = true;
                match args.all {
                    [map] if map.kind() == ValueKind::Map => map.get_item(&Value::from(name.as_str()))?,
                    _ => return refuse("format: names need a dict"),
                }
            }
            None => args.next()?,
        };
        let (kind, arg) = match self.kind {
            's' => ('s', Value::from(text(state, &arg)?)),
            'r' | 'a' => ('s', Value::from(repr(state, &arg)?)),
            'd' | 'i' | 'u' => ('d', truncated(arg)),
            kind => (kind, arg),
        };
        let width = self.width.map_or(String::new(), |width| width.to_string());
        let precision = self.precision.map_or(String::new(), |precision| format!(".{precision}"));
        engine(FormatStyle::Printf, &format!("%{}{width}{precision}{kind}", self.flags), &[arg])
    }
}

/// A float for `%d` loses what is behind the point.
fn truncated(value: Value) -> Value {
    match f64::try_from(value.clone()) {
        Ok(float) if value.kind() == ValueKind::Number && !value.is_integer() && float.abs() < 1e18 => {
            Value::from(float.trunc() as i64)
        }
        _ => value,
    }
}

fn take(rest: &mut &str, wanted: impl Fn(char) -> bool) -> String {
    let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    let (taken, after) = rest.split_at(end);
    *rest = after;
    taken.to_owned()
}

/// A width or precision, written or taken from the arguments.
fn number(rest: &mut &str, args: &mut Args<'_>) -> Result<Option<usize>, Error> {
    let number = if let Some(after) = rest.strip_prefix('*') {
        *rest = after;
        let number = usize::try_from(i64::try_from(args.next()?)?);
        number.or_else(|_| refuse("format: a width below 0"))?
    } else {
        let digits = take(rest, |c| c.is_ascii_digit());
        if digits.is_empty() {
            return Ok(None);
        }
        digits.parse().unwrap_or(usize::MAX)
    };
    if number > MAX_WIDTH {
        refuse(format!("format: a width of {number}, at most {MAX_WIDTH}"))
    } else {
        Ok(Some(number))
    }
}

/// `pattern.format(...)`.
pub(crate) fn braces(state: &State, pattern: &str, args: &[Value]) -> Result<Value, Error> {
    let digits = pattern.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let wide = digits.filter_map(|digits| digits.parse::<usize>().ok().or(Some(usize::MAX))).max().unwrap_or(0);
    // a width may itself be a place
    let nested = pattern.contains(":{") || pattern.contains(".{");
    let given = args.iter().filter(|_| nested).filter_map(Value::as_i64).max().unwrap_or(0);
    let wide = wide.max(usize::try_from(given).unwrap_or(0));
    if wide > MAX_WIDTH {
        return refuse(format!("format: a width of {wide}, at most {MAX_WIDTH}"));
    }
    let mut bytes = pattern.len() as u64;
    for arg in args {
        bytes = bytes.saturating_add(list::measure(state, arg)?.weight);
    }
    let places = pattern.matches('{').count() as u64 + 1;
    state.consume_fuel(bytes.saturating_add(wide as u64).saturating_mul(places) / 64)?;
    engine(FormatStyle::StrFormat, pattern, args).map(Value::from)
}
