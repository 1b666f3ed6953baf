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
use omlx_markup::{Markup, Parser, Piece, Start, Tool};
use omlx_text::{Session, TextModel};

use crate::error::Error;
use crate::metrics::{Ended, Watch};

/// A part of an answer.
#[derive(Debug)]
pub(crate) enum Part {
    /// A piece that is certain, perhaps an empty text, and the log-probabilities of the token that was drawn for it.
    Said { piece: Piece, scored: Option<Scored> },
    /// The end. Nothing follows.
    End { why: End, usage: Usage, reasoning: usize },
}

/// Why an answer ended, as far as clients tell it apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The model ended it.
    Stop,
    /// This stop string did.
    StopString(String),
    /// A limit did.
    Length,
    /// The model ended it and made calls, which wait for their results.
    Calls,
}

impl End {
    /// OpenAI's word for it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            End::Stop | End::StopString(_) => "stop",
            End::Length => "length",
            End::Calls => "tool_calls",
        }
    }
}

/// How an answer's text is taken apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) markup: Markup,
    pub(crate) start: Start,
    /// The tools that the model may call.
    pub(crate) tools: Arc<[Tool]>,
    /// Whether it may make no more than one call.
    pub(crate) one_call: bool,
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

/// A stream of parts that ends after one [`Part::End`] or one fault.
#[derive(Debug)]
pub(crate) struct Answer {
    ticket: Option<Ticket>,
    session: Session,
    parser: Parser,
    /// Whether it may make no more than one call.
    one_call: bool,
    calls: usize,
    text: Arc<TextModel>,
    prompt_tokens: usize,
    cached: usize,
    tokens: usize,
    /// Tokens of thoughts.
    reasoning: usize,
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
        reading: &Reading,
        (prompt_tokens, watch): (usize, Watch),
    ) -> Self {
        let Reading { markup, start, tools, one_call } = reading;
        Answer {
            ticket: Some(ticket),
            session: text.session_showing(stops, &markup.marks()),
            parser: Parser::new(*markup, *start, tools),
            one_call: *one_call,
            calls: 0,
            text: Arc::clone(text),
            prompt_tokens,
            cached: 0,
            tokens: 0,
            reasoning: 0,
            chars: 0,
            ready: VecDeque::new(),
            watch,
        }
    }

    /// The answer of no tokens that `max_tokens: 0` asks for; no engine is troubled.
    pub(crate) fn empty(text: &Arc<TextModel>, prompt_tokens: usize, mut watch: Watch) -> Self {
        watch.complete(End::Length.word(), 0);
        let usage = Usage { prompt: prompt_tokens, cached: 0, completion: 0 };
        Answer {
            ticket: None,
            session: text.session(&[]),
            parser: Parser::new(Markup::default(), Start::Fresh, &[]),
            one_call: false,
            calls: 0,
            text: Arc::clone(text),
            prompt_tokens,
            cached: 0,
            tokens: 0,
            reasoning: 0,
            chars: 0,
            ready: VecDeque::from([Ok(Part::End { why: End::Length, usage, reasoning: 0 })]),
            watch,
        }
    }

    /// How many of the prompt's tokens were found in the cache, as far as is known.
    pub(crate) fn cached(&self) -> usize {
        self.ticket.as_ref().map_or(self.cached, Ticket::cached)
    }

    /// Puts text before the answer, as it is.
    pub(crate) fn led_by(mut self, text: String) -> Self {
        self.ready.push_front(Ok(Part::Said { piece: Piece::Text(text), scored: None }));
        self
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Token { id, logprobs } => {
                self.tokens += 1;
                self.watch.token(self.ticket.as_ref().map_or(0, Ticket::cached));
                let scored = logprobs.map(|logprobs| self.score(id, &logprobs));
                let omlx_text::Piece { text, stopped } = self.session.push(id);
                let cached = self.ticket.as_ref().map_or(0, Ticket::cached);
                let thought = self.parser.is_thinking();
                let pieces = self.parser.push(&text);
                self.reasoning += usize::from(thought || self.parser.is_thinking());
                if !self.say(pieces, scored) {
                    return self.end(End::Stop, cached, self.tokens);
                }
                if stopped {
                    let pieces = self.parser.finish(false);
                    self.say(pieces, None);
                    self.end(self.stopped(), cached, self.tokens);
                }
            }
            Event::Done { why, usage } => {
                let omlx_text::Piece { text, stopped } = self.session.finish();
                let why = match why {
                    _ if stopped => self.stopped(),
                    Finish::Stop => End::Stop,
                    Finish::Length => End::Length,
                };
                let mut pieces = self.parser.push(&text);
                pieces.extend(self.parser.finish(why == End::Length));
                self.say(pieces, None);
                self.end(why, usage.cached, usage.completion);
            }
            Event::Failed(fault) => {
                self.ticket = None;
                self.watch.end(Ended::Failed(Error::from(fault.clone()).code()));
                self.ready.push_back(Err(fault));
            }
        }
    }

    /// Passes pieces on; false where a second call begins and there may be but one.
    fn say(&mut self, pieces: Vec<Piece>, mut scored: Option<Scored>) -> bool {
        for piece in pieces {
            if let Piece::Call { .. } = piece {
                if self.one_call && self.calls > 0 {
                    return false;
                }
                self.calls += 1;
            }
            self.ready.push_back(Ok(Part::Said { piece, scored: scored.take() }));
        }
        if scored.is_some() {
            self.ready.push_back(Ok(Part::Said { piece: Piece::Text(String::new()), scored }));
        }
        true
    }

    fn stopped(&self) -> End {
        End::StopString(self.session.found().unwrap_or_default().to_owned())
    }

    fn end(&mut self, why: End, cached: usize, completion: usize) {
        // Dropping the ticket cancels what the engine would still do after a stop string.
        self.ticket = None;
        self.cached = cached;
        let why = if self.calls > 0 && why == End::Stop { End::Calls } else { why };
        self.watch.complete(why.word(), completion);
        let usage = Usage { prompt: self.prompt_tokens, cached, completion };
        self.ready.push_back(Ok(Part::End { why, usage, reasoning: self.reasoning }));
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
