//! The sampling values that a model's author recommends, from `generation_config.json`.
//!
//! `null` or absent means "not given"; an explicit 0 is given. Which source wins is decided by the caller.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::folder::JsonFile;

/// Recommended sampling; `None` where the author said nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingDefaults {
    /// Softmax temperature; 0 is greedy.
    pub temperature: Option<f32>,
    /// How many of the likeliest tokens are kept.
    pub top_k: Option<usize>,
    /// How much of the probability is kept.
    pub top_p: Option<f32>,
    /// The smallest probability kept, as a share of the largest.
    pub min_p: Option<f32>,
    /// Divisor for tokens already seen; 1 is off.
    pub repetition_penalty: Option<f32>,
    /// `false`: the author means greedy, whatever the other values say.
    pub do_sample: Option<bool>,
    /// Most new tokens.
    pub max_new_tokens: Option<usize>,
}

impl SamplingDefaults {
    pub(crate) fn read(file: &JsonFile) -> Result<Self> {
        Ok(Self {
            temperature: float(file, "temperature", "a number not below 0", |n| n >= 0.0)?,
            top_k: count(file, "top_k")?,
            top_p: float(file, "top_p", "a number between 0 and 1", share)?,
            min_p: float(file, "min_p", "a number between 0 and 1", share)?,
            repetition_penalty: float(file, "repetition_penalty", "a number above 0", |n| n > 0.0)?,
            do_sample: given(file, "do_sample", "true or false", Value::as_bool)?,
            max_new_tokens: count(file, "max_new_tokens")?,
        })
    }
}

fn share(n: f32) -> bool {
    (0.0..=1.0).contains(&n)
}

/// A number that every request may use: what the engine would refuse is refused here, where the file can be named.
fn float(
    file: &JsonFile,
    key: &'static str,
    expected: &'static str,
    usable: impl Fn(f32) -> bool,
) -> Result<Option<f32>> {
    // f32: what the sampler computes in
    given(file, key, expected, |v| v.as_f64().map(|n| n as f32).filter(|n| n.is_finite() && usable(*n)))
}

fn count(file: &JsonFile, key: &'static str) -> Result<Option<usize>> {
    given(file, key, "a whole number not below 0", |v| usize::try_from(v.as_u64()?).ok())
}

fn given<T>(
    file: &JsonFile,
    key: &'static str,
    expected: &'static str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>> {
    match file.value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(Error::Config { path: file.path.clone(), key, expected, found: value.to_string() }),
        },
    }
}

#[cfg(test)]
mod tests;
