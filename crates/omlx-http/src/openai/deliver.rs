//! Running answers to a response: whole, or as a stream of chunks. Both are folded from the same parts.
//!
//! A stream's status is held back until the engine's first word (or the first heartbeat), so that a refusal still gets
//! its own status. Later faults reach the client as an error object in the stream, which then ends without `[DONE]`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::{iter, select_all};
use omlx_api::Fault;
use serde::Serialize;

use super::ask::Ask;
use super::wire::{PromptTokens, Usage};
use super::{chat, completions};
use crate::answer::{Answer, Part, Scored, word};
use crate::entropy::random;
use crate::error::{Blame, Error};
use crate::sse;

/// Which route's shapes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Chat,
    Text,
}

impl Form {
    /// The parameter that holds the prompt.
    pub(super) fn prompt(self) -> &'static str {
        match self {
            Form::Chat => "messages",
            Form::Text => "prompt",
        }
    }
}

/// What stands at the head of an answer and of each of its chunks.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    /// In a stream: whether its usage comes last.
    pub(super) usage: bool,
}

/// One whole answer of the request.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) scored: Vec<Scored>,
    pub(super) finish: &'static str,
}

/// How a request wants its answers.
#[derive(Debug)]
pub(super) struct Manner {
    pub(super) form: Form,
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) usage: bool,
    /// Answers per prompt: a prompt is counted once.
    pub(super) n: usize,
    pub(super) logprobs: bool,
    pub(super) keep_alive: Option<Duration>,
    /// What an engine's refusal is about.
    pub(super) blame: Blame,
}

impl Manner {
    /// What a checked request says of it; `keep_alive` is the server's.
    pub(super) fn of(form: Form, ask: Ask, logprobs: bool, keep_alive: Option<Duration>) -> Self {
        let blame = ask.blame(form.prompt());
        Self { form, model: ask.model, stream: ask.stream, usage: ask.usage, n: ask.n, logprobs, keep_alive, blame }
    }
}

/// The response to a request whose answers are running.
pub(super) async fn deliver(manner: Manner, answers: Vec<Answer>) -> Result<Response, Error> {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let prefix = match manner.form {
        Form::Chat => "chatcmpl",
        Form::Text => "cmpl",
    };
    let id = format!("{prefix}-{:016x}{:016x}", random(), random());
    let head = Head { id, created, model: manner.model.clone(), usage: manner.usage };
    let choices = answers.len();
    let parts =
        select_all(answers.into_iter().enumerate().map(|(index, answer)| answer.map(move |part| (index, part))));
    if manner.stream { stream(manner, head, choices, parts).await } else { whole(&manner, &head, choices, parts).await }
}

type Indexed = (usize, Result<Part, Fault>);

/// Token counts over all answers, each prompt counted once.
#[derive(Debug, Default)]
struct Tally {
    prompt: usize,
    cached: usize,
    completion: usize,
}

impl Tally {
    fn add(&mut self, first_of_prompt: bool, usage: omlx_api::Usage) {
        if first_of_prompt {
            self.prompt += usage.prompt;
            self.cached += usage.cached;
        }
        self.completion += usage.completion;
    }

    fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt,
            completion_tokens: self.completion,
            total_tokens: self.prompt + self.completion,
            prompt_tokens_details: PromptTokens { cached_tokens: self.cached },
        }
    }
}

async fn whole(
    manner: &Manner,
    head: &Head,
    choices: usize,
    mut parts: impl Stream<Item = Indexed> + Unpin,
) -> Result<Response, Error> {
    let mut tally = Tally::default();
    let mut choices: Vec<Choice> =
        (0..choices).map(|_| Choice { text: String::new(), scored: Vec::new(), finish: "stop" }).collect();
    while let Some((index, part)) = parts.next().await {
        let choice = &mut choices[index];
        match part.map_err(|fault| Error::blamed(fault, &manner.blame))? {
            Part::Text { text, scored } => {
                choice.text.push_str(&text);
                choice.scored.extend(scored);
            }
            Part::End { why, usage } => {
                choice.finish = word(why);
                tally.add(index % manner.n == 0, usage);
            }
        }
    }
    let body = match manner.form {
        Form::Chat => chat::whole(head, choices, manner.logprobs, tally.usage()),
        Form::Text => completions::whole(head, choices, manner.logprobs, tally.usage()),
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

async fn stream(
    manner: Manner,
    head: Head,
    choices: usize,
    mut parts: impl Stream<Item = Indexed> + Unpin + Send + 'static,
) -> Result<Response, Error> {
    let keep_alive = manner.keep_alive;
    let first = match keep_alive {
        Some(interval) => tokio::time::timeout(interval, parts.next()).await.unwrap_or_default(),
        None => parts.next().await,
    };
    if let Some((_, Err(fault))) = first {
        return Err(Error::blamed(fault, &manner.blame));
    }
    let mut parts = iter(first).chain(parts);
    // The stream is read after the handler has returned, outside its span.
    let span = tracing::Span::current();
    let lines = async_stream::stream! {
        let mut tally = Tally::default();
        for index in 0..choices {
            if let Form::Chat = manner.form {
                yield chat::opening(&head, index);
            }
        }
        while let Some((index, part)) = parts.next().await {
            match part {
                Ok(part) => {
                    if let Part::End { usage, .. } = &part {
                        tally.add(index % manner.n == 0, *usage);
                    }
                    yield match manner.form {
                        Form::Chat => chat::chunk(&head, index, part),
                        Form::Text => completions::chunk(&head, index, part),
                    };
                }
                Err(fault) => {
                    let error = Error::blamed(fault, &manner.blame);
                    span.in_scope(|| tracing::warn!(%error, "stream failed"));
                    yield json(&error.envelope());
                    return;
                }
            }
        }
        if head.usage {
            yield match manner.form {
                Form::Chat => chat::closing(&head, tally.usage()),
                Form::Text => completions::closing(&head, tally.usage()),
            };
        }
        yield "[DONE]".to_owned();
    };
    Ok(sse::respond(lines, keep_alive))
}

/// A token's text in log-probabilities. Bytes that are no whole characters are written out, with `mark` before them.
pub(super) fn token_text(bytes: &[u8], mark: &str) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold(mark.to_owned(), |text, byte| format!("{text}\\x{byte:02x}")),
    }
}

/// JSON has no minus infinity; this is how OpenAI writes it.
pub(super) fn finite(logprob: f32) -> f32 {
    logprob.max(-9999.0)
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the wire's shapes have string keys and nothing that can fail")
}
