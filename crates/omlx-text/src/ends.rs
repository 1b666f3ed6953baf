//! The tokens that end an answer: every source is asked, and all answers count.
//!
//! Sources that override each other are how servers run past the end of an answer: model folders name
//! one end token here and another there.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::folder::JsonFile;

const IDS: &str = "a token id, a list of token ids, or null";

/// Adds the ids under `eos_token_id`, also those of a nested `text_config`.
pub(crate) fn from_ids(file: &JsonFile, ends: &mut Vec<u32>) -> Result<()> {
    for holder in [Some(&file.value), file.value.get("text_config")].into_iter().flatten() {
        let Some(value) = holder.get("eos_token_id") else { continue };
        read_ids(value, ends).ok_or_else(|| Error::Config {
            path: file.path.clone(),
            key: "eos_token_id",
            expected: IDS,
            found: value.to_string(),
        })?;
    }
    Ok(())
}

/// Adds the id of `eos_token` in a tokenizer configuration; `id_of` looks a token up.
pub(crate) fn from_token(file: &JsonFile, id_of: impl Fn(&str) -> Option<u32>, ends: &mut Vec<u32>) {
    if let Some(id) = token_text(file.value.get("eos_token")).and_then(id_of) {
        add(id, ends);
    }
}

/// The text of a token given as a string or as an object with `content`.
pub(crate) fn token_text(value: Option<&Value>) -> Option<&str> {
    let value = value?;
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// Adds an id once.
pub(crate) fn add(id: u32, ends: &mut Vec<u32>) {
    if !ends.contains(&id) {
        ends.push(id);
    }
}

fn read_ids(value: &Value, ends: &mut Vec<u32>) -> Option<()> {
    match value {
        Value::Null => {}
        Value::Array(items) => items.iter().try_for_each(|item| read_ids(item, ends))?,
        // -1 stands for "none" in some configurations.
        Value::Number(n) if n.as_i64() == Some(-1) => {}
        other => add(u32::try_from(other.as_u64()?).ok()?, ends),
    }
    Some(())
}

#[cfg(test)]
mod tests;
