//! Numbers from values and texts, as the filters `int` and `float` read them.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use crate::template::text::text;

/// The float that a value is or spells.
pub(crate) fn float(state: &State, value: &Value) -> Result<Option<f64>, Error> {
    if matches!(value.kind(), ValueKind::Number | ValueKind::Bool) {
        return Ok(f64::try_from(value.clone()).ok());
    }
    Ok(text(state, value)?.trim().parse().ok())
}

/// The whole number that a value is or spells, in a base.
pub(crate) fn whole(state: &State, value: &Value, base: usize) -> Result<Option<Value>, Error> {
    if value.is_integer() {
        return Ok(Some(value.clone()));
    }
    if let Some(text) = value.as_str() {
        let digits = text.trim().to_ascii_lowercase().replace('_', "");
        let (sign, digits) = match digits.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, digits.strip_prefix('+').unwrap_or(&digits)),
        };
        let prefix = match base {
            2 => "0b",
            8 => "0o",
            16 => "0x",
            _ => "",
        };
        let digits = digits.strip_prefix(prefix).unwrap_or(digits);
        let base = u32::try_from(base).ok().filter(|base| (2..=36).contains(base));
        let one_sign = !digits.starts_with(['-', '+']);
        if let Some(number) = base.filter(|_| one_sign).and_then(|base| i64::from_str_radix(digits, base).ok()) {
            return Ok(Some(Value::from(sign * number)));
        }
    }
    let number = float(state, value)?.filter(|number| number.is_finite());
    // the cast keeps to the limits of the type, far beyond any number in a prompt
    Ok(number.map(|number| Value::from(number.trunc() as i64)))
}
