//! Calls as Python would write them, in a list: `[f(a=1), g(b='x')]`. A call is given once its bracket closes.

use serde_json::Value;

use crate::literal::Reader;
use crate::machine::Step;
use crate::marks::{Here, here};
use crate::piece::Out;
use crate::tool::{Tool, is_name};

/// Reads one list of calls.
#[derive(Debug)]
pub(crate) struct Python {
    end: Option<&'static str>,
    /// Names that count, where nothing but them says that this is a call.
    known: Option<Vec<String>>,
    state: State,
    /// Whether the list's bracket is open, or was never there.
    listed: bool,
    calls: usize,
    name: String,
    body: String,
    tail: String,
}

#[derive(Debug)]
enum State {
    Before,
    Name,
    Body { depth: usize, quote: Option<char>, escaped: bool },
    Ended,
}

impl Python {
    /// A list whose beginning is marked, and ends so.
    pub(crate) fn marked(end: &'static str) -> Self {
        Self::new(Some(end), None)
    }

    /// A list that stands alone: its names have to be tools'.
    pub(crate) fn bare(tools: &[Tool]) -> Self {
        Self::new(None, Some(tools.iter().map(|tool| tool.name.clone()).collect()))
    }

    fn new(end: Option<&'static str>, known: Option<Vec<String>>) -> Self {
        let (name, body, tail) = (String::new(), String::new(), String::new());
        Self { end, known, state: State::Before, listed: false, calls: 0, name, body, tail }
    }

    pub(crate) fn take(&mut self, c: char, out: &mut Out) -> Step {
        match std::mem::replace(&mut self.state, State::Before) {
            State::Before => match c {
                '[' if !self.listed && self.calls == 0 => {
                    self.listed = true;
                    Step::More
                }
                ']' if self.listed && self.calls > 0 => self.ended(),
                c if c.is_whitespace() => Step::More,
                ',' if self.calls > 0 => Step::More,
                c if c.is_alphabetic() || c == '_' => {
                    self.name.push(c);
                    self.go(State::Name)
                }
                c => self.tail(c),
            },
            State::Name => match c {
                '(' if self.is_known() => self.go(State::Body { depth: 0, quote: None, escaped: false }),
                c if is_name(c.encode_utf8(&mut [0; 4])) && self.name.len() < 256 => {
                    self.name.push(c);
                    self.go(State::Name)
                }
                _ => Step::Fail,
            },
            State::Body { depth, quote, escaped } => self.body(depth, quote, escaped, c, out),
            State::Ended if c.is_whitespace() => self.go(State::Ended),
            State::Ended => match self.tail(c) {
                Step::More => self.go(State::Ended),
                other => other,
            },
        }
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::More
    }

    fn is_known(&self) -> bool {
        self.known.as_ref().is_none_or(|known| known.contains(&self.name))
    }

    fn ended(&mut self) -> Step {
        if self.end.is_some() { self.go(State::Ended) } else { Step::Done }
    }

    fn tail(&mut self, c: char) -> Step {
        let set: Vec<&'static str> = self.end.into_iter().collect();
        match here(&set, &mut self.tail, c) {
            Here::Growing => Step::More,
            Here::Mark(_) => Step::Done,
            Here::Other => Step::Fail,
        }
    }

    fn body(&mut self, depth: usize, quote: Option<char>, escaped: bool, c: char, out: &mut Out) -> Step {
        if quote.is_none() && c == ')' && depth == 0 {
            let Some(map) = Reader::python(&self.body).arguments() else { return Step::Fail };
            out.call(&std::mem::take(&mut self.name), None);
            out.arguments(&Value::Object(map).to_string());
            out.settle();
            self.body.clear();
            self.calls += 1;
            return if self.listed { self.go(State::Before) } else { self.ended() };
        }
        self.body.push(c);
        let state = match (quote, c) {
            (Some(_), _) if escaped => State::Body { depth, quote, escaped: false },
            (Some(_), '\\') => State::Body { depth, quote, escaped: true },
            (Some(open), c) if c == open => State::Body { depth, quote: None, escaped },
            (Some(_), _) => State::Body { depth, quote, escaped },
            (None, '"' | '\'') => State::Body { depth, quote: Some(c), escaped },
            (None, '(' | '[' | '{') => State::Body { depth: depth + 1, quote, escaped },
            (None, ')' | ']' | '}') => match depth.checked_sub(1) {
                Some(depth) => State::Body { depth, quote, escaped },
                None => return Step::Fail,
            },
            (None, _) => State::Body { depth, quote, escaped },
        };
        self.go(state)
    }
}
