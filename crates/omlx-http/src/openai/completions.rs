//! `POST /v1/completions`: one or more prompts in, as text or token ids, their continuations out.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use omlx_markup::Piece;
use omlx_text::TextModel;

use super::ask::{Ask, MOST_LOGPROBS, count};
use super::deliver::{Choice, Form, Head, Manner, deliver, finite, token_text};
use super::models::open;
use super::refuse;
use super::start::{Prompt, Terms, start};
use super::wire::{self, Completion, CompletionRequest, TextChoice, TextLogprobs, TopMap, Usage};
use crate::account::Account;
use crate::answer::{Part, Reading, Scored};
use crate::body::Body;
use crate::catalog::Served;
use crate::error::Error;
use crate::prepare::prepare;
use crate::router::App;
use crate::sse::json;

/// New tokens when neither the request nor the model's settings say, as in OpenAI's API.
const MOST_TOKENS: usize = 16;

pub(crate) async fn create(
    State(app): State<App>,
    Extension(account): Extension<Account>,
    body: Body,
) -> Result<Response, Error> {
    account.asks(&body);
    let ask = Ask::check(&body)?;
    refuse::text(body.value())?;
    let request: CompletionRequest = body.read()?;
    let echo = request.echo.unwrap_or(false);
    let logprobs = request.logprobs.map(|most| count("logprobs", most, 0, MOST_LOGPROBS)).transpose()?;
    if echo && logprobs.is_some() {
        let way_out = "log-probabilities of the prompt are not computed; send `echo` or `logprobs`, not both";
        return Err(Error::Unsupported { param: "echo".into(), way_out });
    }
    let prompt = request.prompt.ok_or(Error::Missing("prompt".into()))?;
    check_count(&prompt, ask.n, app.config.answers)?;

    let served = open(&app, &ask.model).await?;
    account.opened(&served.id);
    let prompts = encode(&app, &served, (prompt, echo), body.bytes()).await?;
    let terms = Terms { param: "prompt", logprobs, most: Some(MOST_TOKENS) };
    let answers = start((&app.metrics, &account), &served, &ask, terms, prompts).await?;
    let manner = Manner::of(Form::Text, ask, logprobs.is_some(), app.config.keep_alive);
    deliver(manner, answers).await
}

/// The prompts in tokens. `bytes` is how large the request was.
pub(super) async fn encode(
    app: &App,
    served: &Served,
    (prompt, echo): (wire::Prompt, bool),
    bytes: usize,
) -> Result<Vec<Prompt>, Error> {
    let (text, context) = (served.text.clone(), served.bounds.context);
    prepare(app, ("prompt", context), bytes, move || encode_within(&text, prompt, echo, context)).await
}

pub(super) fn check_count(prompt: &wire::Prompt, n: usize, most: usize) -> Result<(), Error> {
    let prompts = match prompt {
        wire::Prompt::Text(_) | wire::Prompt::Ids(_) => 1,
        wire::Prompt::Texts(texts) => texts.len(),
        wire::Prompt::Lists(lists) => lists.len(),
    };
    if prompts == 0 || prompts.saturating_mul(n) > most {
        let expected = format!("between 1 and {} prompts with `n` = {n}", most / n);
        return Err(Error::Range { param: "prompt".to_owned(), expected, found: prompts.to_string() });
    }
    Ok(())
}

fn encode_within(text: &TextModel, prompt: wire::Prompt, echo: bool, most: usize) -> omlx_text::Result<Vec<Prompt>> {
    let reading = Reading::default;
    let from_text = |prompt: String| {
        let tokens = text.encode_within(&prompt, true, most)?;
        Ok(Prompt { tokens, echo: echo.then_some(prompt), reading: reading() })
    };
    let from_ids = |tokens: Vec<u32>| {
        let echo = if echo { Some(text.decode(&tokens, true)?) } else { None };
        Ok(Prompt { tokens, echo, reading: reading() })
    };
    match prompt {
        wire::Prompt::Text(text) => Ok(vec![from_text(text)?]),
        wire::Prompt::Ids(ids) => Ok(vec![from_ids(ids)?]),
        wire::Prompt::Texts(texts) => texts.into_iter().map(from_text).collect(),
        wire::Prompt::Lists(lists) => lists.into_iter().map(from_ids).collect(),
    }
}

/// The chunk of one part.
pub(super) fn chunk(head: &Head, index: usize, part: Part) -> String {
    let choice = match part {
        Part::Said { piece, scored } => {
            // Nothing is looked for in a completion, so all of it is text.
            let Piece::Text(text) = piece else { unreachable!("a completion has text alone") };
            TextChoice { index, text, logprobs: scored.map(|scored| text_logprobs(&[scored])), finish_reason: None }
        }
        Part::End { why, .. } => {
            TextChoice { index, text: String::new(), logprobs: None, finish_reason: Some(why.word()) }
        }
    };
    line(head, vec![choice], head.usage.then_some(None))
}

/// The chunk that carries a stream's usage.
pub(super) fn closing(head: &Head, usage: Usage) -> String {
    line(head, Vec::new(), Some(Some(usage)))
}

/// The whole response.
pub(super) fn whole(head: &Head, choices: Vec<Choice>, logprobs: bool, usage: Usage) -> String {
    let choice = |(index, choice): (usize, Choice)| TextChoice {
        index,
        text: choice.said.text,
        logprobs: logprobs.then(|| text_logprobs(&choice.scored)),
        finish_reason: Some(choice.finish),
    };
    line(head, choices.into_iter().enumerate().map(choice).collect(), Some(Some(usage)))
}

fn line(head: &Head, choices: Vec<TextChoice>, usage: Option<Option<Usage>>) -> String {
    json(&Completion {
        id: &head.id,
        object: "text_completion",
        created: head.created,
        model: &head.model,
        choices,
        usage,
    })
}

fn text_logprobs(scored: &[Scored]) -> TextLogprobs {
    TextLogprobs {
        tokens: scored.iter().map(|scored| name(&scored.bytes)).collect(),
        token_logprobs: scored.iter().map(|scored| finite(scored.logprob)).collect(),
        top_logprobs: scored.iter().map(top).collect(),
        text_offset: scored.iter().map(|scored| scored.offset).collect(),
    }
}

/// The most likely tokens, and the chosen one where it is not among them; an object cannot hold a name twice.
fn top(scored: &Scored) -> TopMap {
    let mut entries: Vec<(String, f32)> = Vec::with_capacity(scored.top.len() + 1);
    let chosen = (&scored.bytes, scored.logprob);
    for (bytes, logprob) in scored.top.iter().map(|(bytes, logprob)| (bytes, *logprob)).chain([chosen]) {
        let token = name(bytes);
        if entries.iter().all(|(known, _)| *known != token) {
            entries.push((token, finite(logprob)));
        }
    }
    TopMap(entries)
}

fn name(bytes: &[u8]) -> String {
    token_text(bytes, "bytes:")
}
