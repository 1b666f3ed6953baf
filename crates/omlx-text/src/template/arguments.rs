//! Arguments of filters and methods, by place or by name as Python takes them.

use minijinja::value::{Kwargs, Rest, Value, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, State};

use crate::template::text::text;

/// What a filter or method was called with.
pub(crate) struct Arguments {
    placed: Vec<Value>,
    named: Kwargs,
}

impl Arguments {
    /// Of a filter.
    pub(crate) fn of(args: Rest<ValueOrKwargs>) -> Result<Self, Error> {
        Self::new(&args.into_values())
    }

    /// Of a method; arguments by name come last.
    pub(crate) fn new(args: &[Value]) -> Result<Self, Error> {
        let (placed, named): (&[Value], Kwargs) = from_args(args)?;
        Ok(Self { placed: placed.to_vec(), named })
    }

    /// One argument, if it was given.
    pub(crate) fn value(&self, at: usize, name: &str) -> Result<Option<Value>, Error> {
        let named: Option<Value> = if self.named.has(name) { self.named.get(name)? } else { None };
        Ok(named.or_else(|| self.placed.get(at).cloned()))
    }

    /// A length that is not below 0.
    pub(crate) fn count(&self, at: usize, name: &str, default: usize) -> Result<usize, Error> {
        let Some(value) = self.value(at, name)? else { return Ok(default) };
        Ok(usize::try_from(i64::try_from(value)?).unwrap_or(0))
    }

    /// A text; other values are written as one.
    pub(crate) fn text(&self, state: &State, at: usize, name: &str, default: &str) -> Result<String, Error> {
        self.value(at, name)?.map_or(Ok(default.to_owned()), |value| text(state, &value))
    }

    /// Yes or no.
    pub(crate) fn flag(&self, at: usize, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.value(at, name)?.map_or(default, |value| value.is_true()))
    }

    /// An error where there are more arguments than `most`, or ones of a name that nobody asked for.
    pub(crate) fn end(&self, most: usize) -> Result<(), Error> {
        if self.placed.len() > most {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        self.named.assert_all_used()
    }
}
