//! config.json to plain values; unknown meanings are errors, unknown decoration is not.
//!
//! Values are fetched by key, so that every complaint names the file and the key. The metadata of a GGUF file becomes the
//! same keys (`gguf`), so an architecture is described once. Every number has a range here: what passes can be
//! multiplied and allocated without a second thought.

mod decoder;
mod gguf;
mod quant;
mod rope;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use decoder::{Absent, Decoder};
pub(crate) use gguf::{decimal, from_gguf};
pub use quant::{Affine, Quantization};
pub use rope::LayerKind;

use crate::{Error, Result, files};

/// Keys that may stand beside `text_config` and still speak of the text model.
const SHARED: [&str; 6] =
    ["architectures", "tie_word_embeddings", "torch_dtype", "dtype", "quantization", "quantization_config"];

/// The keys of a config file, or of one object within it.
#[derive(Clone, Debug)]
pub struct Config {
    file: PathBuf,
    /// Parents of the keys, as in `rope_scaling.`; for messages.
    path: String,
    /// For messages: the prefix of a GGUF file's own keys, if the values come from one.
    gguf: Option<String>,
    keys: Map<String, Value>,
}

/// A type that a key can hold.
pub trait Field: Sized {
    /// How a message calls it.
    const EXPECTED: &'static str;
    /// The value, if it is of this type.
    fn of(value: &Value) -> Option<Self>;
}

impl Field for usize {
    const EXPECTED: &'static str = "a whole number";
    fn of(value: &Value) -> Option<Self> {
        value.as_u64().and_then(|n| Self::try_from(n).ok())
    }
}

impl Field for f32 {
    const EXPECTED: &'static str = "a number";
    fn of(value: &Value) -> Option<Self> {
        value.as_f64().map(|n| n as Self).filter(|n| n.is_finite())
    }
}

impl Field for bool {
    const EXPECTED: &'static str = "true or false";
    fn of(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Field for String {
    const EXPECTED: &'static str = "a text";
    fn of(value: &Value) -> Option<Self> {
        value.as_str().map(Self::from)
    }
}

impl Field for Vec<String> {
    const EXPECTED: &'static str = "a list of texts";
    fn of(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(String::of).collect()
    }
}

impl Field for Vec<f32> {
    const EXPECTED: &'static str = "a list of numbers";
    fn of(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(f32::of).collect()
    }
}

impl Field for Vec<usize> {
    const EXPECTED: &'static str = "a list of whole numbers";
    fn of(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(usize::of).collect()
    }
}

impl Field for Map<String, Value> {
    const EXPECTED: &'static str = "an object";
    fn of(value: &Value) -> Option<Self> {
        value.as_object().cloned()
    }
}

impl Config {
    /// Reads a config.json; of a model with several parts, its text part.
    ///
    /// # Errors
    /// When the file cannot be read or is no JSON object.
    pub fn read(file: &Path) -> Result<Self> {
        let bytes = files::read_json(file, files::MAX_CONFIG_BYTES)?;
        let keys = serde_json::from_slice(&bytes).map_err(|source| Error::Json { file: file.to_owned(), source })?;
        Self::new(file, keys)
    }

    /// The same from keys that are already parsed; `file` is for messages.
    ///
    /// # Errors
    /// When `text_config` is there and no object.
    pub fn new(file: &Path, keys: Map<String, Value>) -> Result<Self> {
        let outer = Self { file: file.to_owned(), path: String::new(), gguf: None, keys };
        let Some(mut text) = outer.section("text_config")? else { return Ok(outer) };
        for key in SHARED {
            if let (None, Some(value)) = (text.get(key), outer.get(key)) {
                text.keys.insert(key.into(), value.clone());
            }
        }
        Ok(text)
    }

    /// The file, for messages.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All keys and values.
    pub fn keys(&self) -> &Map<String, Value> {
        &self.keys
    }

    /// A value; null counts as absent.
    fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|v| !v.is_null())
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn opt<T: Field>(&self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        T::of(value).map(Some).ok_or_else(|| self.bad(key, value.to_string(), T::EXPECTED))
    }

    /// The value of a key, or the value that its absence means.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn or<T: Field>(&self, key: &str, absent: T) -> Result<T> {
        Ok(self.opt(key)?.unwrap_or(absent))
    }

    /// The value of a key that must be there.
    ///
    /// # Errors
    /// When it is absent or of another type.
    pub fn need<T: Field>(&self, key: &str) -> Result<T> {
        self.opt(key)?.ok_or_else(|| Error::MissingKey { file: self.file.clone(), key: self.full(key) })
    }

    /// A whole number that must be there and lie within a range.
    ///
    /// # Errors
    /// When it is absent, of another type or outside.
    pub fn count(&self, key: &str, range: RangeInclusive<usize>) -> Result<usize> {
        self.within(key, self.need(key)?, range)
    }

    /// A whole number within a range, or the value that its absence means.
    ///
    /// # Errors
    /// When it is of another type or outside.
    pub fn count_or(&self, key: &str, absent: usize, range: RangeInclusive<usize>) -> Result<usize> {
        self.within(key, self.or(key, absent)?, range)
    }

    fn within(&self, key: &str, n: usize, range: RangeInclusive<usize>) -> Result<usize> {
        if range.contains(&n) {
            return Ok(n);
        }
        Err(self.bad(key, n.to_string(), format!("{} to {}", range.start(), range.end())))
    }

    /// A number above zero, if there is one.
    ///
    /// # Errors
    /// When it is of another type, zero or below.
    pub fn positive(&self, key: &str) -> Result<Option<f32>> {
        let Some(n) = self.opt::<f32>(key)? else { return Ok(None) };
        if n > 0.0 { Ok(Some(n)) } else { Err(self.bad(key, n.to_string(), "a number above zero")) }
    }

    /// A number above zero; null for none, while a key that is not there means `absent`.
    ///
    /// # Errors
    /// When it is of another type, zero or below.
    pub fn positive_or(&self, key: &str, absent: f32) -> Result<Option<f32>> {
        if self.keys.contains_key(key) { self.positive(key) } else { Ok(Some(absent)) }
    }

    /// A window in tokens; null for none, while a key that is not there means `absent`.
    ///
    /// # Errors
    /// When it is of another type, zero or absurd.
    pub fn window(&self, key: &str, absent: Option<usize>) -> Result<Option<usize>> {
        match (self.keys.contains_key(key), self.get(key)) {
            (false, _) => Ok(absent),
            (true, None) => Ok(None),
            (true, Some(_)) => self.count(key, 1..=1 << 24).map(Some),
        }
    }

    /// An object within this one, if there is one.
    ///
    /// # Errors
    /// When the key holds something else.
    pub fn section(&self, key: &str) -> Result<Option<Self>> {
        let keys = self.opt::<Map<String, Value>>(key)?;
        let (file, path, gguf) = (self.file.clone(), format!("{}{key}.", self.path), self.gguf.clone());
        Ok(keys.map(|keys| Self { file, path, gguf, keys }))
    }

    /// The meaning of one of a known set of words.
    ///
    /// # Errors
    /// When the word is not among them.
    pub fn word<T: Clone>(&self, key: &str, word: &str, known: &[(&'static str, T)]) -> Result<T> {
        match known.iter().find(|(name, _)| *name == word) {
            Some((_, meaning)) => Ok(meaning.clone()),
            None => Err(self.unknown(key, word, known.iter().map(|(name, _)| *name).collect())),
        }
    }

    /// Refuses a flag that would change the answers in a way that is not built.
    ///
    /// # Errors
    /// When it is true, or no flag.
    pub fn must_be_off(&self, key: &str) -> Result<()> {
        if self.or(key, false)? { Err(self.unknown(key, "true", vec!["false"])) } else { Ok(()) }
    }

    /// An error for a value that is understood and cannot be right.
    pub fn bad(&self, key: &str, found: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::BadValue { file: self.file.clone(), key: self.full(key), found: found.into(), expected: expected.into() }
    }

    /// An error for a word that is not understood.
    pub fn unknown(&self, key: &str, found: &str, known: Vec<&'static str>) -> Error {
        Error::Unknown { file: self.file.clone(), key: self.full(key), found: found.into(), known }
    }

    /// The key as the file calls it, with its parents.
    fn full(&self, key: &str) -> String {
        let key = format!("{}{key}", self.path);
        match &self.gguf {
            Some(prefix) => gguf::name(prefix, &key).unwrap_or(key),
            None => key,
        }
    }
}

#[cfg(test)]
mod tests;
