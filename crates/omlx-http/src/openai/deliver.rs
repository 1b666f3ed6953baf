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
use omlx_markup::Piece;

use super::ask::Ask;
use super::wire::{CompletionTokens, PromptTokens, Usage};
use super::{chat, completions};
use crate::answer::{Answer, Part, Scored};
use crate::entropy::random;
use crate::error::{Blame, Error};
use crate::sse::{self, json};

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
    /// Whether ids of calls are short.
    pub(super) short_ids: bool,
}

impl Head {
    /// A new id for a call.
    pub(super) fn call_id(&self) -> String {
        match self.short_ids {
            true => format!("{:09x}", random() >> 28),
            false => format!("call_{:016x}{:08x}", random(), random() >> 32),
        }
    }
}

/// What an answer comes to.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) thought: String,
    /// Id, name and arguments.
    pub(super) calls: Vec<(String, String, String)>,
}

impl Said {
    fn add(&mut self, head: &Head, piece: Piece) {
        match piece {
            Piece::Text(text) => self.text.push_str(&text),
            Piece::Thought(text) => self.thought.push_str(&text),
            Piece::Call { name, id } => {
                self.calls.push((id.unwrap_or_else(|| head.call_id()), name, String::new()));
            }
            Piece::Arguments(text) => {
                if let Some((_, _, arguments)) = self.calls.last_mut() {
                    arguments.push_str(&text);
                }
            }
        }
    }
}

/// One whole answer of the request.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) said: Said,
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
    /// Whether ids of calls are short.
    pub(super) short_ids: bool,
    /// What an engine's refusal is about.
    pub(super) blame: Blame,
}

impl Manner {
    /// What a checked request says of it; `keep_alive` is the server's.
    pub(super) fn of(form: Form, ask: Ask, logprobs: bool, keep_alive: Option<Duration>) -> Self {
        let blame = ask.blame(form.prompt());
        let (stream, usage, n) = (ask.stream, ask.usage, ask.n);
        Self { form, model: ask.model, stream, usage, n, logprobs, keep_alive, short_ids: false, blame }
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
    let head = Head { id, created, model: manner.model.clone(), usage: manner.usage, short_ids: manner.short_ids };
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
    reasoning: usize,
}

impl Tally {
    fn add(&mut self, first_of_prompt: bool, usage: omlx_api::Usage, reasoning: usize) {
        self.reasoning += reasoning;
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
            completion_tokens_details: CompletionTokens { reasoning_tokens: self.reasoning },
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
        (0..choices).map(|_| Choice { said: Said::default(), scored: Vec::new(), finish: "stop" }).collect();
    while let Some((index, part)) = parts.next().await {
        let choice = &mut choices[index];
        match part.map_err(|fault| Error::blamed(fault, &manner.blame))? {
            Part::Said { piece, scored } => {
                choice.said.add(head, piece);
                choice.scored.extend(scored);
            }
            Part::End { why, usage, reasoning } => {
                choice.finish = why.word();
                tally.add(index % manner.n == 0, usage, reasoning);
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
    let first = sse::first(&mut parts, keep_alive).await;
    if let Some((_, Err(fault))) = first {
        return Err(Error::blamed(fault, &manner.blame));
    }
    let mut parts = iter(first).chain(parts);
    // The stream is read after the handler has returned, outside its span.
    let span = tracing::Span::current();
    let lines = async_stream::stream! {
        let mut tally = Tally::default();
        let mut calls = vec![0; choices];
        for index in 0..choices {
            if let Form::Chat = manner.form {
                yield chat::opening(&head, index);
            }
        }
        while let Some((index, part)) = parts.next().await {
            match part {
                Ok(part) => {
                    if let Part::End { usage, reasoning, .. } = &part {
                        tally.add(index % manner.n == 0, *usage, *reasoning);
                    }
                    yield match manner.form {
                        Form::Chat => chat::chunk(&head, (index, &mut calls[index]), part),
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
