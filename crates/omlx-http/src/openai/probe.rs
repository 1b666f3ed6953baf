//! `POST /api/cache/probe`: a chat or a prompt in, and how much of it is known, block by block, out. Nothing is computed.
//!
//! The body is that of a chat or of a completion, and takes the same way to its tokens, so that what is said here is what a request
//! then finds (field case PFX-5).

use axum::extract::State;
use axum::{Extension, Json};
use omlx_api::{Heat, Known};
use serde::Serialize;

use super::ask::Ask;
use super::models::open;
use super::refuse;
use super::start::{Prompt, bounded};
use super::wire::{ChatRequest, CompletionRequest};
use super::{chat, completions};
use crate::account::Account;
use crate::body::Body;
use crate::error::Error;
use crate::router::App;

#[derive(Serialize)]
pub(crate) struct Probed {
    model: String,
    prompt_tokens: usize,
    /// What a request would say now in its usage.
    cached_tokens: usize,
    /// What is kept somewhere, though computing the rest of it may be quicker than bringing it back.
    kept_tokens: usize,
    block_tokens: usize,
    /// One word for each block of the prompt: hot, ram, disk or cold.
    blocks: Vec<&'static str>,
}

pub(crate) async fn probe(
    State(app): State<App>,
    Extension(account): Extension<Account>,
    body: Body,
) -> Result<Json<Probed>, Error> {
    account.asks(&body);
    let ask = Ask::check(&body)?;
    let is_chat = body.value().get("messages").is_some_and(|messages| !messages.is_null());
    let (prompt, param) = if is_chat {
        refuse::chat(body.value())?;
        let talk = chat::talk(body.read::<ChatRequest>()?)?;
        let served = open(&app, &ask.model).await?;
        account.opened(&served.id);
        let (tokens, reading) = talk.encode(&app, &served, ("messages", served.bounds.context), body.bytes()).await?;
        ((served, Prompt { tokens, echo: None, reading }), "messages")
    } else {
        refuse::text(body.value())?;
        let prompt = body.read::<CompletionRequest>()?.prompt.ok_or(Error::Missing("messages` or `prompt".into()))?;
        completions::check_count(&prompt, 1, 1)?;
        let served = open(&app, &ask.model).await?;
        account.opened(&served.id);
        let mut prompts = completions::encode(&app, &served, (prompt, false), body.bytes()).await?;
        ((served, prompts.remove(0)), "prompt")
    };
    let (served, prompt) = prompt;
    bounded(&served, &ask, &prompt, param)?;
    let prompt_tokens = prompt.tokens.len();
    let Known { block, cached, kept, blocks } = served.engine.probe(prompt.tokens).await?;
    Ok(Json(Probed {
        model: served.id,
        prompt_tokens,
        cached_tokens: cached,
        kept_tokens: kept,
        block_tokens: block,
        blocks: blocks.into_iter().map(word).collect(),
    }))
}

fn word(heat: Heat) -> &'static str {
    match heat {
        Heat::Hot => "hot",
        Heat::Ram => "ram",
        Heat::Disk => "disk",
        Heat::Cold => "cold",
    }
}
