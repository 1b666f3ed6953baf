//! Everything a request can be told instead of an answer, in OpenAI's shape and in Anthropic's.
//!
//! This is the one file where status codes are decided. `param` names the field at fault and `code` lets a program react
//! without reading the text: a context overflow (`context_length_exceeded`) must never look like a lack of memory, or
//! agents delete their history.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use omlx_api::{Busy, Fault, Refusal};
use serde::Serialize;
use thiserror::Error;

use crate::catalog::{GuardError, OpenError};
use crate::near::nearest;
use crate::router::{all_routes, methods_of};

/// Seconds after which a client that found the queue full may try again.
const RETRY_SECONDS: u64 = 1;
/// The same where memory is short: what has to end first takes longer than a place in a queue.
const MEMORY_RETRY_SECONDS: u64 = 5;
/// Of a longer path or name, so much is repeated.
const MOST_PATH_CHARS: usize = 100;
/// Most models that an error lists.
const MOST_LISTED: usize = 100;

#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("the API key is missing or wrong; send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")]
    Key,
    #[error(
        "this server does not answer to the Host name of this request; use the name it was started with, or set a key"
    )]
    Host,
    #[error("there is no route {method} {}; there are {}", shortened(path), all_routes())]
    Route { method: Method, path: String },
    #[error("{} does not take {method}; send {}", shortened(path), methods_of(path))]
    Method { method: Method, path: String },
    #[error("the body has to be JSON; send `Content-Type: application/json`")]
    ContentType,
    #[error("the body comes with `Content-Encoding: {}`; send it as it is", shortened(coding))]
    ContentEncoding { coding: String },
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge { limit: usize },
    #[error("the body has more than {limit} {what}; no request needs that many")]
    BodyTooManyParts { limit: usize, what: &'static str },
    #[error("the body ended before it was complete")]
    BodyLost,
    #[error("the body is not valid JSON: {0}")]
    NotJson(serde_json::Error),
    #[error("the body has to be a JSON object")]
    NotAnObject,
    #[error("`{param}`: {source}")]
    Field { param: String, source: serde_json::Error },
    #[error("`{0}` is missing")]
    Missing(Cow<'static, str>),
    #[error("`{param}` has to be {expected}, found {found}")]
    Range { param: String, expected: String, found: String },
    #[error("`{param}` is not supported yet: {way_out}")]
    Unsupported { param: Cow<'static, str>, way_out: &'static str },
    #[error("The '{param}' parameter is only allowed when 'stream' is enabled.")]
    NeedsStream { param: &'static str },
    #[error("the model `{}` does not exist; {}{}", shortened(name), hint(name, known), listed(known))]
    UnknownModel { name: String, known: Vec<String> },
    #[error("the model `{}` cannot be opened: {source}", shortened(name))]
    Open { name: String, source: OpenError },
    #[error("{source}")]
    Text { param: &'static str, source: omlx_text::Error },
    #[error(
        "this model's context is {context} tokens and the prompt has {tokens}, which leaves no room for an answer; shorten the prompt"
    )]
    TooLong { param: &'static str, tokens: usize, context: usize },
    #[error(
        "this model's context is {context} tokens and the prompt has at least {least}, which leaves no room for an answer; shorten the prompt"
    )]
    FarTooLong { param: &'static str, least: usize, context: usize },
    #[error(
        "the prompt has {tokens} tokens and the memory for keys and values holds {capacity}, answer included; give it more (--kv-memory, --memory-guard, or less for each token, as with --kv-bits 8)"
    )]
    NoMemory { param: &'static str, tokens: usize, capacity: usize },
    #[error(transparent)]
    Busy(Busy),
    #[error("`{param}`: {refusal}")]
    Refused { param: &'static str, refusal: Refusal },
    #[error(transparent)]
    Fault(Fault),
    #[error("`memory_guard`: {0}")]
    Guard(GuardError),
    #[error("preparing the prompt failed inside the server; its log says more")]
    Preparation,
}

/// What a client of Anthropic's API sees.
#[derive(Debug, Serialize)]
pub(crate) struct AnthropicEnvelope {
    #[serde(rename = "type")]
    kind: &'static str,
    error: AnthropicShape,
    request_id: Option<String>,
}

#[derive(Debug, Serialize)]
struct AnthropicShape {
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
}

/// What a client sees: `{"error": {...}}`.
#[derive(Debug, Serialize)]
pub(crate) struct Envelope {
    error: Shape,
}

#[derive(Debug, Serialize)]
struct Shape {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<String>,
    code: &'static str,
}

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Error::Key => StatusCode::UNAUTHORIZED,
            Error::Host => StatusCode::FORBIDDEN,
            Error::Guard(GuardError::Off) => StatusCode::CONFLICT,
            Error::Route { .. } | Error::UnknownModel { .. } => StatusCode::NOT_FOUND,
            Error::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Error::ContentType | Error::ContentEncoding { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Error::BodyTooLarge { .. } | Error::BodyTooManyParts { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Error::BodyLost
            | Error::NotJson(_)
            | Error::NotAnObject
            | Error::Field { .. }
            | Error::Missing(_)
            | Error::Range { .. }
            | Error::Unsupported { .. }
            | Error::NeedsStream { .. }
            | Error::Guard(GuardError::Words { .. })
            | Error::TooLong { .. }
            | Error::FarTooLong { .. } => StatusCode::BAD_REQUEST,
            Error::Open { source, .. } => match source {
                OpenError::Unknown => StatusCode::NOT_FOUND,
                OpenError::Ambiguous { .. } => StatusCode::BAD_REQUEST,
                OpenError::Unusable { .. } => StatusCode::CONFLICT,
                OpenError::NeverFits { .. } => StatusCode::INSUFFICIENT_STORAGE,
                OpenError::NoRoom { .. } | OpenError::Stopping | OpenError::Slow { .. } => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            },
            Error::Text { source, .. } if source.is_request() => StatusCode::BAD_REQUEST,
            Error::Text { .. } | Error::Preparation => StatusCode::INTERNAL_SERVER_ERROR,
            Error::NoMemory { .. } => StatusCode::INSUFFICIENT_STORAGE,
            Error::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Error::Refused { refusal, .. } | Error::Fault(Fault::Refused(refusal)) => refused(refusal).0,
            Error::Fault(Fault::Stopped) => StatusCode::SERVICE_UNAVAILABLE,
            Error::Fault(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What a program reads.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Error::Key => "invalid_api_key",
            Error::Host => "host_not_allowed",
            Error::Route { .. } => "unknown_url",
            Error::Method { .. } => "method_not_allowed",
            Error::ContentType => "unsupported_media_type",
            Error::ContentEncoding { .. } => "unsupported_content_encoding",
            Error::BodyTooLarge { .. } | Error::BodyTooManyParts { .. } => "body_too_large",
            Error::BodyLost => "body_incomplete",
            Error::NotJson(_) | Error::NotAnObject => "invalid_json",
            Error::UnknownModel { .. } => "model_not_found",
            Error::Open { source, .. } => match source {
                OpenError::Unknown => "model_not_found",
                OpenError::Ambiguous { .. } => "model_ambiguous",
                OpenError::Unusable { .. } => "model_unusable",
                OpenError::NoRoom { .. } | OpenError::NeverFits { .. } => "no_memory",
                OpenError::Stopping => "server_stopping",
                OpenError::Slow { .. } => "model_loading",
            },
            Error::Text { source, .. } => text_code(source),
            Error::TooLong { .. } | Error::FarTooLong { .. } => "context_length_exceeded",
            Error::NoMemory { .. } => "no_memory",
            Error::Unsupported { .. } => "unsupported_parameter",
            Error::Guard(GuardError::Off) => "memory_guard_off",
            Error::Field { .. } | Error::Range { .. } | Error::NeedsStream { .. } | Error::Guard(_) => "invalid_value",
            Error::Missing(_) => "missing_required_parameter",
            Error::Busy(Busy::Full) => "server_busy",
            Error::Busy(_) | Error::Fault(Fault::Stopped) => "engine_stopped",
            Error::Refused { refusal, .. } | Error::Fault(Fault::Refused(refusal)) => refused(refusal).1,
            Error::Fault(Fault::Step { .. }) => "step_failed",
            Error::Fault(_) => "engine_failed",
            Error::Preparation => "preparation_failed",
        }
    }

    fn param(&self) -> Option<String> {
        match self {
            Error::Field { param, .. } | Error::Range { param, .. } => Some(param.clone()),
            // The first of those that would do.
            Error::Missing(param) => param.split('`').next().map(str::to_owned),
            Error::Unsupported { param, .. } => Some(param.to_string()),
            Error::Text { source: omlx_text::Error::Message { index, at, .. }, .. }
            | Error::Text { source: omlx_text::Error::Part { index, at, .. }, .. } => {
                Some(format!("messages[{index}]{at}"))
            }
            Error::NeedsStream { param }
            | Error::Refused { param, .. }
            | Error::Text { param, .. }
            | Error::TooLong { param, .. }
            | Error::FarTooLong { param, .. }
            | Error::NoMemory { param, .. } => Some((*param).to_owned()),
            Error::UnknownModel { .. } | Error::Open { .. } => Some("model".to_owned()),
            Error::Guard(_) => Some("memory_guard".to_owned()),
            _ => None,
        }
    }

    /// An engine's fault; where it is about the prompt or a biased token, `blame` says which parameter that came from.
    pub(crate) fn blamed(fault: Fault, blame: &Blame) -> Self {
        let Fault::Refused(refusal) = fault else { return Error::Fault(fault) };
        let param = match refusal {
            Refusal::UnknownToken { id, .. } if blame.biased.contains(&id) => "logit_bias",
            Refusal::UnknownToken { .. } | Refusal::TooLong { .. } | Refusal::Empty => blame.prompt,
            Refusal::OutOfRange { field, .. } => field,
            other => return Error::Fault(Fault::Refused(other)),
        };
        Error::Refused { param, refusal }
    }

    fn retry_seconds(&self) -> u64 {
        match self {
            Error::Fault(Fault::Refused(Refusal::Memory { .. }))
            | Error::Open { source: OpenError::NoRoom { .. }, .. } => MEMORY_RETRY_SECONDS,
            _ => RETRY_SECONDS,
        }
    }

    /// The body in Anthropic's shape, also for an error that comes when a stream has already begun.
    pub(crate) fn anthropic(&self, request_id: Option<String>) -> AnthropicEnvelope {
        let kind = match self.status() {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        // Its clients know this case by these words, and shorten the chat.
        let long = self.code() == "context_length_exceeded";
        let message = if long { format!("prompt is too long: {self}") } else { self.to_string() };
        let error = AnthropicShape { kind, message: in_bounds(message) };
        AnthropicEnvelope { kind: "error", error, request_id }
    }

    /// The body, also for an error that comes when a stream has already begun.
    pub(crate) fn envelope(&self) -> Envelope {
        let kind = if self.status().is_server_error() { "server_error" } else { "invalid_request_error" };
        Envelope { error: Shape { message: in_bounds(self.to_string()), kind, param: self.param(), code: self.code() } }
    }
}

/// Most characters of a message: a name or a value out of a file may be megabytes long.
const MOST_CHARS: usize = 2000;

/// The text without its middle, if it is too long: what is wrong stands at the beginning and the way out at the end.
fn in_bounds(text: String) -> String {
    let count = text.chars().count();
    if count <= MOST_CHARS {
        return text;
    }
    let end = MOST_CHARS / 4;
    let (head, tail) = (text.chars().take(MOST_CHARS - end), text.chars().skip(count - end));
    head.chain(" … ".chars()).chain(tail).collect()
}

/// The code of an error, beside its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(pub(crate) &'static str);

/// Where the token ids of a request came from.
#[derive(Clone, Debug)]
pub(crate) struct Blame {
    /// The parameter that holds the prompt.
    pub(crate) prompt: &'static str,
    /// The ids with a bias.
    pub(crate) biased: Vec<u32>,
}

fn hint(name: &str, models: &[String]) -> String {
    nearest(name, models).map_or_else(String::new, |near| format!("did you mean `{near}`? "))
}

fn listed(models: &[String]) -> String {
    match models.len() {
        0 => "there are no models here".to_owned(),
        count if count > MOST_LISTED => {
            format!("models here: {} and {} more", models[..MOST_LISTED].join(", "), count - MOST_LISTED)
        }
        _ => format!("models here: {}", models.join(", ")),
    }
}

pub(crate) fn shortened(path: &str) -> String {
    match path.char_indices().nth(MOST_PATH_CHARS) {
        Some((end, _)) => format!("{}...", &path[..end]),
        None => path.to_owned(),
    }
}

/// The code of a prompt that did not become token ids.
fn text_code(source: &omlx_text::Error) -> &'static str {
    use omlx_text::Error::{BrokenTemplate, NoTemplate, Part, Refused, TemplateBudget, TemplateFailed};
    match source {
        NoTemplate => "no_chat_template",
        BrokenTemplate { .. } | Refused { .. } | TemplateFailed { .. } | TemplateBudget { .. } => {
            "chat_template_failed"
        }
        Part { .. } => "unsupported_content",
        request if request.is_request() => "invalid_value",
        _ => "preparation_failed",
    }
}

/// Status and code of an engine's refusal.
fn refused(refusal: &Refusal) -> (StatusCode, &'static str) {
    match refusal {
        Refusal::TooLong { .. } => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
        // Memory, not the request: another code, so that no client shortens its history because of it.
        Refusal::NeverFits { .. } => (StatusCode::INSUFFICIENT_STORAGE, "no_memory"),
        Refusal::Memory { .. } => (StatusCode::SERVICE_UNAVAILABLE, "no_memory"),
        Refusal::Full { .. } => (StatusCode::SERVICE_UNAVAILABLE, "server_busy"),
        Refusal::Empty | Refusal::UnknownToken { .. } => (StatusCode::BAD_REQUEST, "invalid_value"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "engine_failed"),
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, retry) = (self.status(), self.retry_seconds());
        if status.is_server_error() {
            tracing::warn!(%status, error = %self, "request failed");
        }
        let mut response = (status, Json(self.envelope())).into_response();
        response.extensions_mut().insert(Code(self.code()));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry));
        }
        if status == StatusCode::INSUFFICIENT_STORAGE {
            // OpenAI's clients ask again after any 5xx unless told not to, and here nothing changes by waiting.
            response.headers_mut().insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // Whoever knows the client says it in the client's own dialect.
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

impl From<Busy> for Error {
    fn from(busy: Busy) -> Self {
        Error::Busy(busy)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Error::Fault(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name out of a model's file may be as long as the file.
    #[test]
    fn a_message_has_its_two_ends() {
        let reason = format!("config.json: {} is not known; use another model", "é".repeat(1 << 20));
        let error = Error::Open { name: "m".to_owned(), source: OpenError::NeverFits { reason } };
        let message = error.envelope().error.message;
        assert_eq!(message.chars().count(), MOST_CHARS + 3);
        assert!(message.contains("config.json") && message.ends_with("use another model"), "{message}");
        assert_eq!(in_bounds("é".repeat(MOST_CHARS)), "é".repeat(MOST_CHARS));
    }
}
