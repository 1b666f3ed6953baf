//! What a tokenizer file's post-processor puts around a text, read before it is used.
//!
//! The library does what the file says, for every prompt: text fifty thousand times over, twenty thousand tokens in front, ids that
//! no embedding has, or no text at all. Real files have the text once and one to four tokens around it.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};

/// The most tokens that may be put around a text; [`FEW`] says it too.
const MAX_ADDED: usize = 256;
const FEW: &str = "at most 256 tokens around a prompt";
/// The most steps of a sequence of post-processors, each of which goes over all tokens; [`SHORT`] says it too.
const MAX_STEPS: usize = 16;
const SHORT: &str = "at most 16 steps, of them one TemplateProcessing";

/// What has been met so far.
#[derive(Default)]
struct Met {
    steps: usize,
    templates: usize,
    added: usize,
}

/// A key of the file, what it should be, and what it is instead.
struct Fault {
    key: &'static str,
    expected: &'static str,
    found: String,
}

/// Checks a post-processor as the library writes it; `exists` knows the ids of the vocabulary.
pub(super) fn check(post: &Value, exists: impl Fn(u32) -> bool, path: &Path) -> Result<()> {
    let checked = step(post, &exists, &mut Met::default());
    checked.map_err(|Fault { key, expected, found }| Error::Config { path: path.to_path_buf(), key, expected, found })
}

fn step(post: &Value, exists: &dyn Fn(u32) -> bool, met: &mut Met) -> Result<(), Fault> {
    let kind = post.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "Sequence" {
        let steps = post.get("processors").and_then(Value::as_array);
        return steps.into_iter().flatten().try_for_each(|post| step(post, exists, met));
    }
    met.steps += 1;
    met.templates += usize::from(kind == "TemplateProcessing");
    if met.steps > MAX_STEPS || met.templates > 1 {
        let found = format!("{} steps, of them {} TemplateProcessing", met.steps, met.templates);
        return Err(Fault { key: "post_processor.processors", expected: SHORT, found: format!("{found} or more") });
    }
    match kind {
        "TemplateProcessing" => template(post, exists, met),
        "BertProcessing" | "RobertaProcessing" => {
            for (key, name) in [("post_processor.cls", "cls"), ("post_processor.sep", "sep")] {
                // A name and an id.
                id(key, post.pointer(&format!("/{name}/1")).unwrap_or_default(), exists)?;
                add(key, 1, met)?;
            }
            Ok(())
        }
        // It only moves offsets.
        _ => Ok(()),
    }
}

/// The template of a text alone; that of a pair is never used.
fn template(post: &Value, exists: &dyn Fn(u32) -> bool, met: &mut Met) -> Result<(), Fault> {
    const SINGLE: &str = "post_processor.single";
    let pieces = post.get("single").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let sequences = |name: &str| pieces.iter().filter(|p| p.pointer("/Sequence/id") == Some(&name.into())).count();
    match (sequences("A"), sequences("B")) {
        (1, 0) => {}
        (a, b) => {
            let expected = "a template with Sequence A, the prompt, once and without Sequence B";
            return Err(Fault { key: SINGLE, expected, found: format!("A {a} times and B {b} times") });
        }
    }
    for name in pieces.iter().filter_map(|piece| piece.pointer("/SpecialToken/id")?.as_str()) {
        let token = post.get("special_tokens").and_then(|tokens| tokens.get(name));
        let Some(ids) = token.and_then(|token| token.get("ids")).and_then(Value::as_array) else {
            let expected = "a template of Sequence A and special_tokens";
            return Err(Fault {
                key: SINGLE,
                expected,
                found: format!("{}, which special_tokens has not", shown(name)),
            });
        };
        add("post_processor.single", ids.len(), met)?;
        ids.iter().try_for_each(|found| id("post_processor.special_tokens", found, exists))?;
    }
    Ok(())
}

fn add(key: &'static str, tokens: usize, met: &mut Met) -> Result<(), Fault> {
    met.added = met.added.saturating_add(tokens);
    if met.added > MAX_ADDED {
        return Err(Fault { key, expected: FEW, found: format!("{} or more", met.added) });
    }
    Ok(())
}

fn id(key: &'static str, found: &Value, exists: &dyn Fn(u32) -> bool) -> Result<(), Fault> {
    match found.as_u64().and_then(|id| u32::try_from(id).ok()) {
        Some(id) if exists(id) => Ok(()),
        _ => Err(Fault { key, expected: "ids of the file's own vocabulary", found: found.to_string() }),
    }
}

/// A name from the file, at a length that fits a message.
fn shown(name: &str) -> String {
    let begin: String = name.chars().take(40).collect();
    let more = if begin.len() < name.len() { ".." } else { "" };
    format!("{begin:?}{more}")
}

#[cfg(test)]
mod tests;
