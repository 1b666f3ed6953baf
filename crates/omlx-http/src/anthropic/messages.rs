//! `POST /v1/messages` and `/v1/messages/count_tokens`.
//!
//! As with OpenAI's routes, a stream and a whole answer are folded from the same parts, and a stream's status waits for the engine's first
//! word or the first heartbeat. A heartbeat is a `ping` event here.

use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::StreamExt;
use omlx_api::Fault;
use omlx_markup::Piece;
use serde::Serialize;
use serde_json::{Map, Value};

use super::request::{self, Asked};
use super::wire::{Block, Delta, Ending, Event, Message, Usage};
use crate::account::Account;
use crate::answer::{Answer, End, Part};
use crate::body::Body;
use crate::entropy::random;
use crate::error::{Blame, Error};
use crate::openai::{Prompt, Terms, open, short_ids, start};
use crate::router::App;
use crate::sse::{self, json};

/// Clients may leave out thoughts without one. It seals nothing here.
const SIGNATURE: &str = "omlx";

#[derive(Debug, Serialize)]
pub(crate) struct Count {
    input_tokens: usize,
}

pub(crate) async fn count(
    State(app): State<App>,
    Extension(account): Extension<Account>,
    body: Body,
) -> Result<Json<Count>, Error> {
    account.asks(&body);
    let Asked { ask, talk, .. } = request::read(&body, true)?;
    let served = open(&app, &ask.model).await?;
    account.opened(&served.id);
    // A prompt that is too long is still to be counted.
    let (tokens, _) = talk.encode(&app, &served, ("messages", usize::MAX), body.bytes()).await?;
    Ok(Json(Count { input_tokens: tokens.len() }))
}

pub(crate) async fn create(
    State(app): State<App>,
    Extension(account): Extension<Account>,
    body: Body,
) -> Result<Response, Error> {
    account.asks(&body);
    let Asked { ask, talk, stream } = request::read(&body, false)?;
    let served = open(&app, &ask.model).await?;
    account.opened(&served.id);
    let (tokens, reading) = talk.encode(&app, &served, ("messages", served.bounds.context), body.bytes()).await?;
    let terms = Terms { param: "messages", logprobs: None, most: None };
    let prompt = Prompt { tokens, echo: None, reading };
    let tokens = prompt.tokens.len();
    let mut answers = start((&app.metrics, &account), &served, &ask, terms, vec![prompt]).await?;
    let answer = answers.pop().expect("one prompt, one answer");
    let head = Head {
        id: format!("msg_{:016x}{:016x}", random(), random()),
        model: ask.model.clone(),
        prompt: tokens,
        short_ids: short_ids(&served),
    };
    let blame = ask.blame("messages");
    if stream { streamed(head, answer, blame, app.config.keep_alive).await } else { whole(&head, answer, &blame).await }
}

/// What stands at the head of an answer.
struct Head {
    id: String,
    model: String,
    prompt: usize,
    short_ids: bool,
}

impl Head {
    fn message(&self, content: Vec<Block>, usage: Usage) -> Message<'_> {
        let (kind, role) = ("message", "assistant");
        Message { id: &self.id, kind, role, model: &self.model, content, stop_reason: None, stop_sequence: None, usage }
    }

    fn usage(&self, cached: usize, output_tokens: usize) -> Usage {
        Usage {
            input_tokens: self.prompt.saturating_sub(cached),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            output_tokens,
        }
    }

    fn call_id(&self) -> String {
        match self.short_ids {
            true => format!("{:09x}", random() >> 28),
            false => format!("toolu_{:016x}{:08x}", random(), random() >> 32),
        }
    }
}

/// Why an answer ended, in Anthropic's words.
fn ending(why: End) -> Ending {
    let (stop_reason, stop_sequence) = match why {
        End::Stop => ("end_turn", None),
        End::StopString(stop) => ("stop_sequence", Some(stop)),
        End::Length => ("max_tokens", None),
        End::Calls => ("tool_use", None),
    };
    Ending { stop_reason, stop_sequence }
}

async fn whole(head: &Head, mut answer: Answer, blame: &Blame) -> Result<Response, Error> {
    let mut said: Vec<(Block, String)> = Vec::new();
    let mut last = None;
    while let Some(part) = answer.next().await {
        match part.map_err(|fault| Error::blamed(fault, blame))? {
            Part::Said { piece, .. } => add(head, piece, &mut said),
            Part::End { why, usage, .. } => last = Some((ending(why), head.usage(usage.cached, usage.completion))),
        }
    }
    let (end, usage) = last.ok_or(Error::Fault(Fault::Stopped))?;
    let content = said.into_iter().map(|(block, text)| filled(block, text)).collect();
    let message = Message {
        stop_reason: Some(end.stop_reason),
        stop_sequence: end.stop_sequence,
        ..head.message(content, usage)
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], json(&message)).into_response())
}

/// Adds a piece to the last block, or begins a block with it.
fn add(head: &Head, piece: Piece, said: &mut Vec<(Block, String)>) {
    if said.last().is_none_or(|(block, _)| !continues(block, &piece)) {
        let Some(block) = begun(head, &piece) else { return };
        said.push((block, String::new()));
    }
    if let (Piece::Text(more) | Piece::Thought(more) | Piece::Arguments(more), Some((_, text))) =
        (piece, said.last_mut())
    {
        text.push_str(&more);
    }
}

/// The block with all that was said in it.
fn filled(block: Block, said: String) -> Block {
    match block {
        Block::Text { .. } => Block::Text { text: said },
        Block::Thinking { .. } => Block::Thinking { thinking: said, signature: SIGNATURE },
        Block::ToolUse { id, name, .. } => Block::ToolUse { id, name, input: object(&said) },
    }
}

/// Whether a piece is more of a block.
fn continues(block: &Block, piece: &Piece) -> bool {
    matches!(
        (block, piece),
        (Block::Text { .. }, Piece::Text(_))
            | (Block::Thinking { .. }, Piece::Thought(_))
            | (Block::ToolUse { .. }, Piece::Arguments(_))
    )
}

/// The block that a piece begins; none where there is nothing to say.
fn begun(head: &Head, piece: &Piece) -> Option<Block> {
    match piece {
        Piece::Text(text) if text.is_empty() => None,
        Piece::Text(_) => Some(Block::Text { text: String::new() }),
        Piece::Thought(_) => Some(Block::Thinking { thinking: String::new(), signature: "" }),
        Piece::Call { name, id } => {
            let id = id.clone().unwrap_or_else(|| head.call_id());
            Some(Block::ToolUse { id, name: name.clone(), input: Value::Object(Map::new()) })
        }
        Piece::Arguments(_) => None,
    }
}

/// A call's arguments as an object, as far as they go: a limit may have cut them, and a model may have written nonsense.
fn object(text: &str) -> Value {
    const MOST_CUT: usize = 64;
    let mut end = text.len();
    for _ in 0..MOST_CUT {
        if let Some(value) = closed(&text[..end]).filter(Value::is_object) {
            return value;
        }
        match text[..end].char_indices().next_back() {
            Some((at, _)) => end = at,
            None => break,
        }
    }
    Value::Object(Map::new())
}

/// The text with the strings, lists and objects ended that are open in it, if that is JSON.
fn closed(text: &str) -> Option<Value> {
    let (mut open, mut inside, mut escaped) = (Vec::new(), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            '{' if !inside => open.push('}'),
            '[' if !inside => open.push(']'),
            '}' | ']' if !inside => {
                open.pop();
            }
            _ => {}
        }
    }
    let quote = inside.then_some('"');
    let ends: String = quote.into_iter().chain(open.into_iter().rev()).collect();
    serde_json::from_str(&format!("{text}{ends}")).ok()
}

async fn streamed(
    head: Head,
    mut answer: Answer,
    blame: Blame,
    keep_alive: Option<Duration>,
) -> Result<Response, Error> {
    let first = sse::first(&mut answer, keep_alive).await;
    if let Some(Err(fault)) = first {
        return Err(Error::blamed(fault, &blame));
    }
    // The stream is read after the handler has returned, outside its span.
    let span = tracing::Span::current();
    let events = async_stream::stream! {
        let mut part = match first {
            Some(first) => Some(first),
            None => answer.next().await,
        };
        let mut flow = Flow { head, open: None, index: 0, begun: false };
        while let Some(next) = part {
            match next {
                Ok(part) => {
                    for event in flow.events(part, answer.cached()) {
                        yield event;
                    }
                }
                Err(fault) => {
                    let error = Error::blamed(fault, &blame);
                    span.in_scope(|| tracing::warn!(%error, "stream failed"));
                    yield ("error", json(&error.anthropic(None)));
                    return;
                }
            }
            part = answer.next().await;
        }
    };
    Ok(sse::events(events, keep_alive, "ping", r#"{"type": "ping"}"#))
}

/// The events of a stream, in their order.
struct Flow {
    head: Head,
    /// The block that is open.
    open: Option<Block>,
    /// How many blocks have ended.
    index: usize,
    /// Whether the message has begun.
    begun: bool,
}

impl Flow {
    fn events(&mut self, part: Part, cached: usize) -> Vec<(&'static str, String)> {
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            let message = self.head.message(Vec::new(), self.head.usage(cached, 0));
            out.push(line(&Event::MessageStart { message }));
        }
        match part {
            Part::Said { piece, .. } => self.said(piece, &mut out),
            Part::End { why, usage, .. } => {
                self.close(&mut out);
                let usage = self.head.usage(usage.cached, usage.completion);
                out.push(line(&Event::MessageDelta { delta: ending(why), usage }));
                out.push(line(&Event::MessageStop));
            }
        }
        out
    }

    fn said(&mut self, piece: Piece, out: &mut Vec<(&'static str, String)>) {
        if self.open.as_ref().is_none_or(|block| !continues(block, &piece)) {
            let Some(block) = begun(&self.head, &piece) else { return };
            self.close(out);
            out.push(line(&Event::ContentBlockStart { index: self.index, content_block: block.clone() }));
            self.open = Some(block);
        }
        let delta = match piece {
            Piece::Text(text) => Delta::TextDelta { text },
            Piece::Thought(thinking) => Delta::ThinkingDelta { thinking },
            Piece::Arguments(partial_json) => Delta::InputJsonDelta { partial_json },
            Piece::Call { .. } => return,
        };
        out.push(line(&Event::ContentBlockDelta { index: self.index, delta }));
    }

    fn close(&mut self, out: &mut Vec<(&'static str, String)>) {
        let Some(block) = self.open.take() else { return };
        if let Block::Thinking { .. } = block {
            let delta = Delta::SignatureDelta { signature: SIGNATURE };
            out.push(line(&Event::ContentBlockDelta { index: self.index, delta }));
        }
        out.push(line(&Event::ContentBlockStop { index: self.index }));
        self.index += 1;
    }
}

fn line(event: &Event<'_>) -> (&'static str, String) {
    (event.name(), json(event))
}

#[cfg(test)]
mod tests {
    //! Arguments that a limit has cut.

    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_as_far_as_they_go() {
        for (text, expected) in [
            ("{\"a\": 1}", json!({"a": 1})),
            ("{\"a\": \"x", json!({"a": "x"})),
            ("{\"a\": [1, {\"b\": \"é\\", json!({"a": [1, {"b": "é"}]})),
            ("{\"a\": 1, \"b", json!({"a": 1})),
            ("{\"a\": 1, \"b\": ", json!({"a": 1})),
            ("{", json!({})),
            ("", json!({})),
            ("no", json!({})),
            ("[1]", json!({})),
        ] {
            assert_eq!(object(text), expected, "{text}");
        }
    }
}
