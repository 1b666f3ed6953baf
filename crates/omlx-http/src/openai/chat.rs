//! `POST /v1/chat/completions`: messages in, one assistant message per answer out.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use omlx_markup::{Format, Piece};
use omlx_text::Chat;
use serde_json::Value;

use super::ask::{Ask, MOST_LOGPROBS, count};
use super::deliver::{Choice, Form, Head, Manner, Said, deliver, finite, token_text};
use super::messages;
use super::models::open;
use super::refuse;
use super::start::{Prompt, Terms, start};
use super::tools;
use super::wire::{
    ChatChoice, ChatChunkChoice, ChatLogprobs, ChatRequest, Completion, Delta, Function, FunctionDelta, Message,
    TokenLogprob, ToolCall, ToolCallDelta, TopLogprob, Usage,
};
use crate::account::Account;
use crate::answer::{Part, Scored};
use crate::body::Body;
use crate::catalog::Served;
use crate::error::Error;
use crate::router::App;
use crate::sse::json;
use crate::talk::{EFFORTS, Talk};

pub(crate) async fn create(
    State(app): State<App>,
    Extension(account): Extension<Account>,
    body: Body,
) -> Result<Response, Error> {
    account.asks(&body);
    let ask = Ask::check(&body)?;
    refuse::chat(body.value())?;
    let request: ChatRequest = body.read()?;
    let logprobs = logprobs(&request)?;
    let talk = talk(request)?;
    let served = open(&app, &ask.model).await?;
    account.opened(&served.id);
    let (tokens, reading) = talk.encode(&app, &served, ("messages", served.bounds.context), body.bytes()).await?;
    let terms = Terms { param: "messages", logprobs, most: None };
    let prompt = Prompt { tokens, echo: None, reading };
    let answers = start((&app.metrics, &account), &served, &ask, terms, vec![prompt]).await?;
    let manner = Manner::of(Form::Chat, ask, logprobs.is_some(), app.config.keep_alive);
    deliver(Manner { short_ids: short_ids(&served), ..manner }, answers).await
}

/// The chat of a request: the one place where a prompt is made of it.
pub(super) fn talk(request: ChatRequest) -> Result<Talk, Error> {
    let mut messages = request.messages.ok_or(Error::Missing("messages".into()))?;
    messages::check(&mut messages)?;
    let kwargs = request.chat_template_kwargs.unwrap_or_default();
    let offer = tools::offer(request.tools, request.tool_choice.as_ref(), request.parallel_tool_calls)?;
    let effort = request.reasoning_effort;
    if let Some(found) = effort.as_deref().filter(|effort| !EFFORTS.contains(effort)) {
        let (param, expected) = ("reasoning_effort".to_owned(), format!("one of {}", EFFORTS.join(", ")));
        return Err(Error::Range { param, expected, found: format!("{found:?}") });
    }
    let continued = continued(&messages, request.add_generation_prompt, request.continue_final_message)?;
    let chat = Chat {
        messages,
        kwargs,
        add_generation_prompt: request.add_generation_prompt.unwrap_or(true),
        continue_final: continued,
        ..Chat::default()
    };
    Ok(Talk { chat, offer, effort, lenient: false })
}

/// Whether the last message is to go on: an assistant's is, as with Anthropic's API, unless the request says otherwise.
fn continued(messages: &[Value], add: Option<bool>, wish: Option<bool>) -> Result<bool, Error> {
    let calls = |message: &Value| message.get("tool_calls").and_then(Value::as_array).is_some_and(|c| !c.is_empty());
    let open = messages.last().is_some_and(|message| message["role"] == "assistant" && !calls(message));
    if wish == Some(true) && (!open || add == Some(true)) {
        return Err(Error::Range {
            param: "continue_final_message".to_owned(),
            expected: "sent with a last message of the assistant, and without `add_generation_prompt`".to_owned(),
            found: "true".to_owned(),
        });
    }
    Ok(open && wish.unwrap_or(add != Some(true)))
}

/// Templates of Mistral's take call ids of nine letters and digits and no others.
pub(crate) fn short_ids(served: &Served) -> bool {
    served.markup.format == Some(Format::Mistral)
}

fn logprobs(request: &ChatRequest) -> Result<Option<usize>, Error> {
    let top = count("top_logprobs", request.top_logprobs.unwrap_or(0), 0, MOST_LOGPROBS)?;
    match request.logprobs.unwrap_or(false) {
        true => Ok(Some(top)),
        false if top == 0 => Ok(None),
        false => Err(Error::Range {
            param: "top_logprobs".to_owned(),
            expected: "sent together with `logprobs: true`".to_owned(),
            found: "it alone".to_owned(),
        }),
    }
}

/// The chunk that begins an answer.
pub(super) fn opening(head: &Head, index: usize) -> String {
    let delta = Delta { role: Some("assistant"), content: Some(String::new()), ..Delta::default() };
    line(head, vec![ChatChunkChoice { index, delta, logprobs: None, finish_reason: None }], None)
}

/// The chunk of one part; `calls` counts those of its answer that have begun.
pub(super) fn chunk(head: &Head, (index, calls): (usize, &mut usize), part: Part) -> String {
    let choice = match part {
        Part::Said { piece, scored } => ChatChunkChoice {
            index,
            delta: delta(head, piece, calls),
            logprobs: scored.map(|scored| ChatLogprobs { content: vec![token_logprob(&scored)] }),
            finish_reason: None,
        },
        Part::End { why, .. } => {
            ChatChunkChoice { index, delta: Delta::default(), logprobs: None, finish_reason: Some(why.word()) }
        }
    };
    line(head, vec![choice], None)
}

fn delta(head: &Head, piece: Piece, calls: &mut usize) -> Delta {
    let call = |call| Delta { tool_calls: Some([call]), ..Delta::default() };
    match piece {
        Piece::Text(text) => Delta { content: Some(text), ..Delta::default() },
        Piece::Thought(text) => Delta { reasoning_content: Some(text), ..Delta::default() },
        Piece::Call { name, id } => {
            let function = FunctionDelta { name: Some(name), arguments: String::new() };
            *calls += 1;
            let id = Some(id.unwrap_or_else(|| head.call_id()));
            call(ToolCallDelta { index: *calls - 1, id, kind: Some("function"), function })
        }
        Piece::Arguments(arguments) => {
            let function = FunctionDelta { name: None, arguments };
            call(ToolCallDelta { index: calls.saturating_sub(1), function, ..ToolCallDelta::default() })
        }
    }
}

/// The chunk that carries a stream's usage.
pub(super) fn closing(head: &Head, usage: Usage) -> String {
    line(head, Vec::new(), Some(usage))
}

fn line(head: &Head, choices: Vec<ChatChunkChoice>, usage: Option<Usage>) -> String {
    json(&Completion {
        id: &head.id,
        object: "chat.completion.chunk",
        created: head.created,
        model: &head.model,
        choices,
        usage: head.usage.then_some(usage),
    })
}

/// The whole response.
pub(super) fn whole(head: &Head, choices: Vec<Choice>, logprobs: bool, usage: Usage) -> String {
    let choice = |(index, choice): (usize, Choice)| ChatChoice {
        index,
        message: message(choice.said),
        logprobs: logprobs.then(|| ChatLogprobs { content: choice.scored.iter().map(token_logprob).collect() }),
        finish_reason: choice.finish,
    };
    json(&Completion {
        id: &head.id,
        object: "chat.completion",
        created: head.created,
        model: &head.model,
        choices: choices.into_iter().enumerate().map(choice).collect(),
        usage: Some(Some(usage)),
    })
}

fn message(said: Said) -> Message {
    let calls = said.calls.into_iter().map(|(id, name, arguments)| ToolCall {
        id,
        kind: "function",
        function: Function { name, arguments },
    });
    let tool_calls: Vec<ToolCall> = calls.collect();
    Message {
        role: "assistant",
        content: (!said.text.is_empty() || tool_calls.is_empty()).then_some(said.text),
        reasoning_content: (!said.thought.is_empty()).then_some(said.thought),
        tool_calls,
    }
}

fn token_logprob(scored: &Scored) -> TokenLogprob {
    TokenLogprob {
        chosen: top_logprob(&scored.bytes, scored.logprob),
        top_logprobs: scored.top.iter().map(|(bytes, logprob)| top_logprob(bytes, *logprob)).collect(),
    }
}

fn top_logprob(bytes: &[u8], logprob: f32) -> TopLogprob {
    TopLogprob { token: token_text(bytes, ""), logprob: finite(logprob), bytes: bytes.to_vec() }
}
