//! `POST /v1/chat/completions`: messages in, one assistant message per answer out.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use omlx_text::Chat;

use super::ask::{Ask, MOST_LOGPROBS, count};
use super::deliver::{Choice, Form, Head, Manner, deliver, finite, json, token_text};
use super::messages;
use super::models::open;
use super::refuse;
use super::start::{Prompt, Terms, prepare, start};
use super::wire::{
    ChatChoice, ChatChunkChoice, ChatLogprobs, ChatRequest, Completion, Delta, Message, TokenLogprob, TopLogprob, Usage,
};
use crate::account::Account;
use crate::answer::{Part, Scored, word};
use crate::body::Body;
use crate::catalog::Served;
use crate::error::Error;
use crate::router::App;

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
    let chat = chat(request)?;
    let served = open(&app, &ask.model).await?;
    account.opened(&served.id);
    let tokens = encode(&app, &served, chat, body.bytes()).await?;
    let terms = Terms { param: "messages", logprobs, most: None };
    let answers = start((&app.metrics, &account), &served, &ask, terms, vec![Prompt { tokens, echo: None }]).await?;
    let manner = Manner::of(Form::Chat, ask, logprobs.is_some(), app.config.keep_alive);
    deliver(manner, answers).await
}

/// The chat of a request: the one place where a prompt is made of it.
pub(super) fn chat(request: ChatRequest) -> Result<Chat, Error> {
    let mut messages = request.messages.ok_or(Error::Missing("messages".into()))?;
    messages::check(&mut messages)?;
    let kwargs = request.chat_template_kwargs.unwrap_or_default();
    Ok(Chat { messages, kwargs, add_generation_prompt: true, ..Chat::default() })
}

/// Its tokens. `bytes` is how large the request was.
pub(super) async fn encode(app: &App, served: &Served, chat: Chat, bytes: usize) -> Result<Vec<u32>, Error> {
    let (text, context) = (served.text.clone(), served.bounds.context);
    prepare(app, ("messages", context), bytes, move || text.encode_chat_within(&chat, context)).await
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
    let delta = Delta { role: Some("assistant"), content: Some(String::new()) };
    line(head, vec![ChatChunkChoice { index, delta, logprobs: None, finish_reason: None }], None)
}

/// The chunk of one part.
pub(super) fn chunk(head: &Head, index: usize, part: Part) -> String {
    let choice = match part {
        Part::Text { text, scored } => ChatChunkChoice {
            index,
            delta: Delta { role: None, content: Some(text) },
            logprobs: scored.map(|scored| ChatLogprobs { content: vec![token_logprob(&scored)] }),
            finish_reason: None,
        },
        Part::End { why, .. } => {
            ChatChunkChoice { index, delta: Delta::default(), logprobs: None, finish_reason: Some(word(why)) }
        }
    };
    line(head, vec![choice], None)
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
        message: Message { role: "assistant", content: choice.text },
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

fn token_logprob(scored: &Scored) -> TokenLogprob {
    TokenLogprob {
        chosen: top_logprob(&scored.bytes, scored.logprob),
        top_logprobs: scored.top.iter().map(|(bytes, logprob)| top_logprob(bytes, *logprob)).collect(),
    }
}

fn top_logprob(bytes: &[u8], logprob: f32) -> TopLogprob {
    TopLogprob { token: token_text(bytes, ""), logprob: finite(logprob), bytes: bytes.to_vec() }
}
