//! What a request may ask for and this server cannot do: refused by name, never dropped in silence.
//!
//! Fields that leave the answer as it is (`user`, `metadata`, `store`, `prediction` ...) and names that
//! nobody knows are let through. A field is also let through with the value that asks for nothing, since clients send
//! such values unasked.

use serde_json::Value;

use super::wire::Common;
use crate::error::Error;

/// The value of a field that asks for nothing. `null` always does.
#[derive(Clone, Copy)]
enum Idle {
    Never,
    /// An empty list, object or string.
    Empty,
    /// One of these words, or a list of them.
    Words(&'static [&'static str]),
    Number(f64),
    Flag(bool),
}

type Fields<'a> = &'a [(&'static str, Idle, &'static str)];

const LEAVE: &str = "leave it out";
const TEXT_ONLY: &str = "this server answers in text only; leave it out or send [\"text\"]";
const CONSTRAINED: &str = "answers are not held to a grammar or schema yet; leave it out";

/// On both routes: OpenAI's own fields, then those of other servers that would change the answer.
const BOTH: Fields<'static> = &[
    ("modalities", Idle::Words(&["text"]), TEXT_ONLY),
    ("audio", Idle::Never, "this server answers in text only; leave it out"),
    ("verbosity", Idle::Words(&["medium"]), "leave it out, or ask for it in a message"),
    ("web_search_options", Idle::Never, LEAVE),
    ("functions", Idle::Empty, LEAVE),
    ("function_call", Idle::Words(&["none", "auto"]), "use \"none\" or \"auto\", or leave it out"),
    ("suffix", Idle::Empty, LEAVE),
    ("guided_json", Idle::Never, CONSTRAINED),
    ("guided_regex", Idle::Never, CONSTRAINED),
    ("guided_choice", Idle::Never, CONSTRAINED),
    ("guided_grammar", Idle::Never, CONSTRAINED),
    ("structured_outputs", Idle::Never, CONSTRAINED),
    ("grammar", Idle::Empty, CONSTRAINED),
    ("json_schema", Idle::Empty, CONSTRAINED),
    ("allowed_token_ids", Idle::Empty, "leave it out, or use `logit_bias`"),
    ("bad_words", Idle::Empty, "leave it out, or use `logit_bias`"),
    ("min_tokens", Idle::Number(0.0), "leave it out, or use `ignore_eos`"),
    ("stop_token_ids", Idle::Empty, "use strings in `stop`"),
    ("include_stop_str_in_output", Idle::Flag(false), LEAVE),
    ("skip_special_tokens", Idle::Flag(true), LEAVE),
    ("use_beam_search", Idle::Flag(false), LEAVE),
    ("length_penalty", Idle::Number(1.0), LEAVE),
    ("prompt_logprobs", Idle::Never, LEAVE),
    ("prompt_embeds", Idle::Empty, LEAVE),
    ("truncate_prompt_tokens", Idle::Never, "leave it out and shorten the prompt"),
    ("repeat_penalty", Idle::Number(1.0), "use `repetition_penalty`"),
    ("typical_p", Idle::Number(1.0), LEAVE),
    ("mirostat", Idle::Number(0.0), LEAVE),
    ("dry_multiplier", Idle::Number(0.0), LEAVE),
    ("xtc_probability", Idle::Number(0.0), LEAVE),
];

const CHAT: Fields<'static> = &[
    ("prompt", Idle::Never, "this route reads `messages`; send prompts to /v1/completions"),
    ("echo", Idle::Flag(false), LEAVE),
    ("chat_template", Idle::Never, "put it into the model's folder as chat_template.jinja"),
    ("documents", Idle::Empty, "leave it out, or put them into a message"),
];

const TEXT: Fields<'static> = &[
    ("messages", Idle::Never, "this route reads `prompt`; send messages to /v1/chat/completions"),
    ("top_logprobs", Idle::Number(0.0), "give the number in `logprobs`"),
    ("tools", Idle::Empty, "send tools to /v1/chat/completions"),
    ("tool_choice", Idle::Words(&["none", "auto"]), "send tools to /v1/chat/completions"),
    ("reasoning_effort", Idle::Words(&["none"]), "send it to /v1/chat/completions"),
];

/// Refuses what the chat route cannot honour.
pub(super) fn chat(body: &Value) -> Result<(), Error> {
    fields(body, CHAT)
}

/// Refuses what the completions route cannot honour.
pub(super) fn text(body: &Value) -> Result<(), Error> {
    // A choice of none asks for nothing.
    if body.get("tool_choice").is_some_and(|choice| choice == "none") {
        return fields(body, &TEXT.iter().copied().filter(|(name, ..)| *name != "tools").collect::<Vec<_>>());
    }
    fields(body, TEXT)
}

/// Refuses what neither route can honour.
pub(super) fn both(body: &Value, common: &Common) -> Result<(), Error> {
    if common.best_of.is_some_and(|best| best != common.n.unwrap_or(1)) {
        return Err(unsupported("best_of", "leave it out or set it to `n`"));
    }
    if common.response_format.as_ref().is_some_and(|format| format.0.kind != "text") {
        return Err(unsupported("response_format", "use {\"type\": \"text\"} or leave it out"));
    }
    if common.stream_options.is_some() && common.stream != Some(true) {
        return Err(Error::NeedsStream { param: "stream_options" });
    }
    fields(body, BOTH)
}

fn fields(body: &Value, fields: Fields<'_>) -> Result<(), Error> {
    for (name, idle, way_out) in fields {
        match body.get(name) {
            Some(value) if !idle.is(value) => return Err(unsupported(name, way_out)),
            _ => {}
        }
    }
    Ok(())
}

fn unsupported(param: &'static str, way_out: &'static str) -> Error {
    Error::Unsupported { param: param.into(), way_out }
}

impl Idle {
    fn is(self, value: &Value) -> bool {
        let word = |value: &Value, words: &[&str]| value.as_str().is_some_and(|found| words.contains(&found));
        match (self, value) {
            (_, Value::Null) => true,
            (Idle::Empty, Value::Array(list)) => list.is_empty(),
            (Idle::Empty, Value::Object(map)) => map.is_empty(),
            (Idle::Empty, Value::String(text)) => text.is_empty(),
            (Idle::Words(words), Value::Array(list)) => list.iter().all(|value| word(value, words)),
            (Idle::Words(words), value) => word(value, words),
            (Idle::Number(idle), value) => value.as_f64() == Some(idle),
            (Idle::Flag(idle), value) => value.as_bool() == Some(idle),
            (Idle::Never | Idle::Empty, _) => false,
        }
    }
}
