//! One answer's way from an engine's events to text, the same for every route and both modes.
//!
//! Token ids become whole characters, stop strings cut and cancel, log-probabilities get their tokens' bytes, and the
//! ending carries the usage. What must stay true: after its end an answer gives nothing more, and dropping it cancels
//! the request behind it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use omlx_api::{Event, Fault, Finish, Logprobs, Ticket, Usage};
use omlx_text::{Piece, Session, TextModel};

use crate::error::Error;
use crate::metrics::{Ended, Watch};

/// A piece of an answer.
#[derive(Debug)]
pub(crate) enum Part {
    /// Text that is certain, perhaps none, and the log-probabilities of the token that was drawn for it.
    Text { text: String, scored: Option<Scored> },
    /// The end. Nothing follows.
    End { why: Finish, usage: Usage },
}

/// A generated token with its log-probabilities.
#[derive(Debug)]
pub(crate) struct Scored {
    /// The token's true bytes, also when they are a part of a character.
    pub(crate) bytes: Vec<u8>,
    pub(crate) logprob: f32,
    /// Where the token begins, in characters of the answer before any stop string is cut.
    pub(crate) offset: usize,
    /// The most likely tokens, most likely first.
    pub(crate) top: Vec<(Vec<u8>, f32)>,
}

/// OpenAI's word for why an answer ended.
pub(crate) fn word(why: Finish) -> &'static str {
    match why {
        Finish::Stop => "stop",
        Finish::Length => "length",
    }
}

/// A stream of parts that ends after one [`Part::End`] or one fault.
#[derive(Debug)]
pub(crate) struct Answer {
    ticket: Option<Ticket>,
    session: Session,
    text: Arc<TextModel>,
    prompt_tokens: usize,
    tokens: usize,
    chars: usize,
    ready: VecDeque<Result<Part, Fault>>,
    watch: Watch,
}

impl Answer {
    /// The answer that comes through `ticket`, cut at the first of `stops`.
    pub(crate) fn new(
        ticket: Ticket,
        text: &Arc<TextModel>,
        stops: &[String],
        prompt_tokens: usize,
        watch: Watch,
    ) -> Self {
        Answer {
            ticket: Some(ticket),
            session: text.session(stops),
            text: Arc::clone(text),
            prompt_tokens,
            tokens: 0,
            chars: 0,
            ready: VecDeque::new(),
            watch,
        }
    }

    /// The answer of no tokens that `max_tokens: 0` asks for; no engine is troubled.
    pub(crate) fn empty(text: &Arc<TextModel>, prompt_tokens: usize, mut watch: Watch) -> Self {
        watch.complete(word(Finish::Length), 0);
        let usage = Usage { prompt: prompt_tokens, cached: 0, completion: 0 };
        Answer {
            ticket: None,
            session: text.session(&[]),
            text: Arc::clone(text),
            prompt_tokens,
            tokens: 0,
            chars: 0,
            ready: VecDeque::from([Ok(Part::End { why: Finish::Length, usage })]),
            watch,
        }
    }

    /// Puts text before the answer, as it is.
    pub(crate) fn led_by(mut self, text: String) -> Self {
        self.ready.push_front(Ok(Part::Text { text, scored: None }));
        self
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Token { id, logprobs } => {
                self.tokens += 1;
                self.watch.token(self.ticket.as_ref().map_or(0, Ticket::cached));
                let scored = logprobs.map(|logprobs| self.score(id, &logprobs));
                let Piece { text, stopped } = self.session.push(id);
                self.say(text, scored);
                if stopped {
                    let cached = self.ticket.as_ref().map_or(0, Ticket::cached);
                    self.end(Finish::Stop, cached, self.tokens);
                }
            }
            Event::Done { why, usage } => {
                let Piece { text, stopped } = self.session.finish();
                self.say(text, None);
                self.end(if stopped { Finish::Stop } else { why }, usage.cached, usage.completion);
            }
            Event::Failed(fault) => {
                self.ticket = None;
                self.watch.end(Ended::Failed(Error::from(fault.clone()).code()));
                self.ready.push_back(Err(fault));
            }
        }
    }

    fn say(&mut self, text: String, scored: Option<Scored>) {
        if !text.is_empty() || scored.is_some() {
            self.ready.push_back(Ok(Part::Text { text, scored }));
        }
    }

    fn end(&mut self, why: Finish, cached: usize, completion: usize) {
        // Dropping the ticket cancels what the engine would still do after a stop string.
        self.ticket = None;
        self.watch.complete(word(why), completion);
        let usage = Usage { prompt: self.prompt_tokens, cached, completion };
        self.ready.push_back(Ok(Part::End { why, usage }));
    }

    fn score(&mut self, id: u32, logprobs: &Logprobs) -> Scored {
        let bytes = self.text.token_bytes(id);
        let offset = self.chars;
        if !self.text.is_special(id) {
            // A character belongs to the token that holds its first byte.
            self.chars += bytes.iter().filter(|byte| (**byte & 0xc0) != 0x80).count();
        }
        let top = logprobs.top.iter().map(|(id, logprob)| (self.text.token_bytes(*id), *logprob)).collect();
        Scored { bytes, logprob: logprobs.chosen, offset, top }
    }
}

impl Stream for Answer {
    type Item = Result<Part, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Poll::Ready(Some(part));
            }
            let Some(ticket) = &mut self.ticket else {
                return Poll::Ready(None);
            };
            match ready!(Pin::new(ticket).poll_next(cx)) {
                Some(event) => self.take(event),
                // A ticket says how it ends before it ends.
                None => unreachable!("a ticket ended without an ending"),
            }
        }
    }
}
