//! Typed answers about metadata: the value, or an error that names the key and what was expected.
//!
//! `x(key)` needs the key, `opt_x(key)` answers `None` where it is absent; a value of a wrong type is an error in both.
//! Integers of any width are taken where an integer is asked for: converters differ in it.

use crate::error::{Error, Kind, Result};
use crate::read::Gguf;
use crate::value::{Array, Strings, Value};

/// The error for a value of another type.
pub(crate) fn wrong_type(key: &str, expected: &'static str, found: &Value) -> Error {
    let found = match found {
        Value::Array(array) => Kind::ArrayOf(array.kind()),
        one => Kind::One(one.kind()),
    };
    Error::WrongType { key: key.to_owned(), expected, found }
}

fn unsigned(key: &str, n: i128) -> Result<u64> {
    let found = i64::try_from(n).unwrap_or(i64::MAX);
    u64::try_from(n).map_err(|_| Error::OutOfRange { key: key.to_owned(), expected: "an unsigned integer", found })
}

fn required<T>(key: &str, expected: &'static str, found: Option<T>) -> Result<T> {
    found.ok_or_else(|| Error::MissingKey { key: key.to_owned(), expected })
}

impl Gguf {
    /// The value of a key, whatever its type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.pairs.get(key).map(|pair| &pair.value)
    }

    /// All keys in alphabetical order, with their values.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + '_ {
        self.pairs.iter().map(|(key, pair)| (key.as_str(), &pair.value))
    }

    /// `general.architecture`, as in `llama`: the prefix of the model's own keys.
    pub fn architecture(&self) -> Result<&str> {
        self.str("general.architecture")
    }

    /// The full name of one of the model's own keys: `context_length` becomes `llama.context_length`.
    pub fn key(&self, suffix: &str) -> Result<String> {
        Ok(format!("{}.{suffix}", self.architecture()?))
    }

    /// A text.
    pub fn str(&self, key: &str) -> Result<&str> {
        required(key, "string", self.opt_str(key)?)
    }

    /// A text, if the key is there.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>> {
        match self.pairs.get(key) {
            None => Ok(None),
            Some(pair) if pair.lossy => Err(Error::NotUtf8 { key: key.to_owned() }),
            Some(pair) => match &pair.value {
                Value::String(text) => Ok(Some(text)),
                other => Err(wrong_type(key, "string", other)),
            },
        }
    }

    /// An unsigned integer, stored in any integer type.
    pub fn u64(&self, key: &str) -> Result<u64> {
        required(key, "an unsigned integer", self.opt_u64(key)?)
    }

    /// An unsigned integer, if the key is there.
    pub fn opt_u64(&self, key: &str) -> Result<Option<u64>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let n = value.integer().ok_or_else(|| wrong_type(key, "an unsigned integer", value))?;
        unsigned(key, n).map(Some)
    }

    /// An unsigned integer, or `default` where the key is absent.
    pub fn u64_or(&self, key: &str, default: u64) -> Result<u64> {
        Ok(self.opt_u64(key)?.unwrap_or(default))
    }

    /// A real number, stored as f32 or f64.
    pub fn f32(&self, key: &str) -> Result<f32> {
        required(key, "f32", self.opt_f32(key)?)
    }

    /// A real number, if the key is there.
    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::F32(x)) => Ok(Some(*x)),
            Some(Value::F64(x)) => Ok(Some(*x as f32)),
            Some(other) => Err(wrong_type(key, "f32", other)),
        }
    }

    /// A real number, or `default` where the key is absent.
    pub fn f32_or(&self, key: &str, default: f32) -> Result<f32> {
        Ok(self.opt_f32(key)?.unwrap_or(default))
    }

    /// A truth value.
    pub fn bool(&self, key: &str) -> Result<bool> {
        required(key, "bool", self.opt_bool(key)?)
    }

    /// A truth value, if the key is there.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(wrong_type(key, "bool", other)),
        }
    }

    /// A truth value, or `default` where the key is absent.
    pub fn bool_or(&self, key: &str, default: bool) -> Result<bool> {
        Ok(self.opt_bool(key)?.unwrap_or(default))
    }

    /// An array of any type.
    pub fn array(&self, key: &str) -> Result<&Array> {
        required(key, "array", self.opt_array(key)?)
    }

    /// An array of any type, if the key is there.
    pub fn opt_array(&self, key: &str) -> Result<Option<&Array>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(array)) => Ok(Some(array)),
            Some(other) => Err(wrong_type(key, "array", other)),
        }
    }

    /// An array of texts; entries that were not UTF-8 are repaired and flagged.
    pub fn strings(&self, key: &str) -> Result<&Strings> {
        required(key, "array of string", self.opt_strings(key)?)
    }

    /// An array of texts, if the key is there.
    pub fn opt_strings(&self, key: &str) -> Result<Option<&Strings>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Strings(texts))) => Ok(Some(texts)),
            Some(other) => Err(wrong_type(key, "array of string", other)),
        }
    }

    /// An array of unsigned integers, stored in any integer type.
    pub fn u64s(&self, key: &str) -> Result<Vec<u64>> {
        required(key, "array of unsigned integers", self.opt_u64s(key)?)
    }

    /// An array of unsigned integers, if the key is there.
    pub fn opt_u64s(&self, key: &str) -> Result<Option<Vec<u64>>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let wrong = || wrong_type(key, "array of unsigned integers", value);
        let Value::Array(array) = value else {
            return Err(wrong());
        };
        let entries = array.integers().ok_or_else(wrong)?;
        entries.into_iter().map(|n| unsigned(key, n)).collect::<Result<_>>().map(Some)
    }

    /// An array of real numbers, stored as f32 or f64.
    pub fn f32s(&self, key: &str) -> Result<Vec<f32>> {
        required(key, "array of f32", self.opt_f32s(key)?)
    }

    /// An array of real numbers, if the key is there.
    pub fn opt_f32s(&self, key: &str) -> Result<Option<Vec<f32>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::F32(v))) => Ok(Some(v.clone())),
            Some(Value::Array(Array::F64(v))) => Ok(Some(v.iter().map(|x| *x as f32).collect())),
            Some(other) => Err(wrong_type(key, "array of f32", other)),
        }
    }

    /// An array of truth values, if the key is there.
    pub fn opt_bools(&self, key: &str) -> Result<Option<&[bool]>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Bool(v))) => Ok(Some(v)),
            Some(other) => Err(wrong_type(key, "array of bool", other)),
        }
    }
}
