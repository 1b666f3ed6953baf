//! Texts filled up to a width, as Python does it.

use minijinja::value::Value;
use minijinja::{Error, ErrorKind, State};

/// Where a text stands in its width.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Left,
    Right,
    /// `str.center`: an odd space goes to the left where the width is odd.
    Both,
}

/// The text in so many characters.
pub(crate) fn pad(state: &State, text: &str, width: usize, fill: &str, side: Side) -> Result<Value, Error> {
    let mut chars = fill.chars();
    let (Some(fill), None) = (chars.next(), chars.next()) else {
        return Err(Error::new(ErrorKind::InvalidOperation, "the fill must be exactly one character"));
    };
    let missing = width.saturating_sub(text.chars().count());
    state.consume_fuel((missing as u64).saturating_mul(fill.len_utf8() as u64) / 64)?;
    let before = match side {
        Side::Left => 0,
        Side::Right => missing,
        Side::Both => missing / 2 + (missing & width & 1),
    };
    let fill = |count: usize| std::iter::repeat_n(fill, count);
    Ok(Value::from(fill(before).chain(text.chars()).chain(fill(missing - before)).collect::<String>()))
}
