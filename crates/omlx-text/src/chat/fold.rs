//! What to do with messages a template refuses: the mildest change that it accepts.
//!
//! Hoisting late system messages to the front would change the prompt's start with every turn and so cost
//! the prefix cache; folding leaves everything before the message as it was.

use serde_json::{Value, json};

/// Whether every system text is found in the prompt: some templates drop what they do not expect.
pub(crate) fn is_complete(prompt: &str, messages: &[Value]) -> bool {
    // Mostly they stand in order, so each is looked for behind the one before: looking through the whole prompt for each takes
    // the square of a long chat's time.
    let mut from = 0;
    messages.iter().filter(|m| m["role"] == "system").all(|m| {
        let text = text(m).trim();
        if let Some(at) = prompt[from..].find(text) {
            from += at + text.len();
            return true;
        }
        prompt.contains(text)
    })
}

/// Other forms of the same chat, mildest first.
pub(crate) fn variants(messages: &[Value]) -> Vec<Vec<Value>> {
    let is_system = |m: &Value| m["role"] == "system";
    let mut variants = Vec::new();
    if messages.iter().skip(1).any(is_system) {
        variants.push(fold(messages, 1));
    }
    if messages.first().is_some_and(is_system) {
        variants.push(fold(messages, 0));
    }
    if let Some(wrapped) = wrap_arguments(messages) {
        let folded: Vec<_> = variants.iter().filter_map(|v| wrap_arguments(v)).collect();
        variants.push(wrapped);
        variants.extend(folded);
    }
    variants
}

/// Folds system messages from index `from` on into the user turn that follows, or else the one before.
fn fold(messages: &[Value], from: usize) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    let mut waiting: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if index >= from && message["role"] == "system" {
            waiting.push(text(message));
        } else if message["role"] == "user" {
            waiting.push(text(message));
            out.push(with_content(message, &std::mem::take(&mut waiting)));
        } else {
            out.push(message.clone());
        }
    }
    if !waiting.is_empty() {
        let before = out.pop_if(|last| last["role"] == "user");
        let before = before.unwrap_or_else(|| json!({"role": "user", "content": ""}));
        let texts: Vec<&str> = std::iter::once(text(&before)).chain(waiting).collect();
        out.push(with_content(&before, &texts));
    }
    out
}

/// The message with these texts as its content, as paragraphs.
fn with_content(message: &Value, texts: &[&str]) -> Value {
    let paragraphs: Vec<&str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
    let mut message = message.clone();
    message["content"] = paragraphs.join("\n\n").into();
    message
}

/// Arguments that are no JSON object, as a model may well have written them, wrapped into one; none if
/// there are no such arguments.
fn wrap_arguments(messages: &[Value]) -> Option<Vec<Value>> {
    let mut messages = messages.to_vec();
    let mut found = false;
    for call in messages.iter_mut().filter_map(|m| m["tool_calls"].as_array_mut()).flatten() {
        let holder = if call.get("function").is_some() { &mut call["function"] } else { call };
        if let Some(arguments) = holder.get_mut("arguments").filter(|a| a.is_string()) {
            *arguments = json!({"arguments": arguments.take()});
            found = true;
        }
    }
    found.then_some(messages)
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}
