//! A request for a message, checked: what is asked for, and the chat that is behind it.

use omlx_api::Priority;
use omlx_text::Chat;
use serde_json::Value;

use super::blocks;
use super::wire::Request;
use crate::body::Body;
use crate::error::Error;
use crate::offer::Offer;
use crate::openai::Ask;
use crate::sampling::Settings;
use crate::talk::{EFFORTS, Talk};

const FORCED: &str =
    "an answer cannot be made to call a tool yet; use {\"type\": \"auto\"} or {\"type\": \"none\"}, or leave it out";
const SCHEMA: &str = "answers are not held to a schema yet; leave it out";

/// Fields that would change the answer and cannot be honoured, unless they are empty.
const UNSUPPORTED: [(&str, &str); 4] = [
    ("mcp_servers", "this server calls no other servers; leave it out"),
    ("container", "this server runs no code; leave it out"),
    ("output_format", SCHEMA),
    ("context_management", "leave it out; this server sees a chat as it is sent"),
];

/// A checked request.
pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) talk: Talk,
    pub(super) stream: bool,
}

/// Reads a request; one that only wants its tokens counted needs no `max_tokens`.
pub(super) fn read(body: &Body, counting: bool) -> Result<Asked, Error> {
    let request: Request = body.read()?;
    for (name, way_out) in UNSUPPORTED {
        let empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            // Old thoughts are the chat template's to leave out, and every template that knows of thoughts does.
            Value::Object(map) => {
                let idle = |edit: &Value| edit["type"].as_str().is_some_and(|kind| kind.starts_with("clear_thinking"));
                map.values().all(|value| value.as_array().is_some_and(|edits| edits.iter().all(idle)))
            }
            _ => false,
        };
        if body.value().get(name).is_some_and(|value| !empty(value)) {
            return Err(Error::Unsupported { param: name.into(), way_out });
        }
    }
    let model = request.model.clone().filter(|model| !model.is_empty()).ok_or(Error::Missing("model".into()))?;
    let max_tokens = match request.max_tokens {
        Some(0) => return Err(range("max_tokens", "1 or more", "0")),
        Some(most) => Some(usize::try_from(most).unwrap_or(usize::MAX)),
        None if counting => None,
        None => return Err(Error::Missing("max_tokens".into())),
    };
    let settings = Settings { max_tokens, ..Ask::drawing(request.temperature, request.top_p, request.top_k)? };
    let stops = stops(request.stop_sequences.clone().unwrap_or_default())?;
    let priority =
        if request.service_tier.as_deref() == Some("batch") { Priority::Batch } else { Priority::Interactive };
    let stream = request.stream.unwrap_or(false);
    let talk = talk(request)?;
    Ok(Asked { ask: Ask::one(model, settings, stops, priority), talk, stream })
}

fn stops(stops: Vec<String>) -> Result<Vec<String>, Error> {
    const MOST: usize = 64;
    const MOST_BYTES: usize = 4096;
    if stops.len() > MOST {
        return Err(range("stop_sequences", &format!("at most {MOST} strings"), &stops.len().to_string()));
    }
    match stops.iter().position(|stop| stop.is_empty() || stop.len() > MOST_BYTES) {
        None => Ok(stops),
        Some(at) => {
            let expected = format!("a string of 1 to {MOST_BYTES} bytes");
            Err(range(&format!("stop_sequences.{at}"), &expected, &format!("one of {}", stops[at].len())))
        }
    }
}

fn talk(request: Request) -> Result<Talk, Error> {
    let given = request.messages.ok_or(Error::Missing("messages".into()))?;
    if given.is_empty() {
        return Err(range("messages", "at least one message", "none"));
    }
    let mut messages: Vec<Value> = blocks::system(&request.system.unwrap_or_default())?.into_iter().collect();
    for (index, message) in given.iter().enumerate() {
        blocks::message(index, message, &mut messages)?;
    }
    let tools = blocks::tools(&request.tools.unwrap_or_default())?;
    let (offered, one_call) = match &request.tool_choice {
        None => (true, false),
        Some(choice) => {
            let one_call = choice.disable_parallel_tool_use.unwrap_or(false);
            match choice.kind.as_str() {
                "auto" => (true, one_call),
                "none" => (false, false),
                "any" | "tool" => return Err(Error::Unsupported { param: "tool_choice".into(), way_out: FORCED }),
                other => return Err(range("tool_choice.type", "one of auto, any, tool, none", &format!("{other:?}"))),
            }
        }
    };
    let (config, thinking) = (request.output_config, request.thinking);
    if config.as_ref().is_some_and(|config| config.format.as_ref().is_some_and(|format| !format.is_null())) {
        return Err(Error::Unsupported { param: "output_config.format".into(), way_out: SCHEMA });
    }
    let effort = config.and_then(|config| config.effort);
    if let Some(found) = effort.as_deref().filter(|effort| !EFFORTS.contains(effort)) {
        return Err(range("output_config.effort", &format!("one of {}", EFFORTS.join(", ")), &format!("{found:?}")));
    }
    // Thinking is allowed and not demanded: a model that cannot think answers all the same.
    let effort = match thinking.as_ref().map(|thinking| thinking.kind.as_str()) {
        None | Some("disabled") => "none".to_owned(),
        Some("enabled" | "adaptive") => effort.unwrap_or_else(|| "medium".to_owned()),
        Some(other) => {
            return Err(range("thinking.type", "one of enabled, adaptive, disabled", &format!("{other:?}")));
        }
    };
    let last = messages.last().is_some_and(|last| last["role"] == "assistant" && last.get("tool_calls").is_none());
    let chat = Chat { messages, add_generation_prompt: true, continue_final: last, ..Chat::default() };
    let offer = Offer::of(if offered { tools } else { Vec::new() }, one_call);
    Ok(Talk { chat, offer, effort: Some(effort), lenient: true })
}

fn range(param: &str, expected: &str, found: &str) -> Error {
    Error::Range { param: param.to_owned(), expected: expected.to_owned(), found: found.to_owned() }
}
