//! Calls as JSON objects with a name and arguments: Hermes and Qwen (`<tool_call>`), Llama 3, the older Mistrals, MiniMax M1.
//!
//! A call begins as soon as its name is known and its arguments begin; arguments that come before the name wait for it.

use serde_json::Value;

use crate::machine::Step;
use crate::marks::{Here, here};
use crate::piece::Out;
use crate::span::{At, Span};
use crate::tool::{Tool, is_name};

/// What stands around the objects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around {
    /// Ends the block.
    pub(crate) end: Option<&'static str>,
    /// Nothing but the object says that this is a call: its name has to be a tool's.
    pub(crate) bare: bool,
}

/// Reads one block of objects.
#[derive(Debug)]
pub(crate) struct Json {
    around: Around,
    /// Names that count, where only known ones do.
    known: Vec<String>,
    state: State,
    list: bool,
    calls: usize,
    /// What may become the end mark.
    tail: String,
    name: Option<String>,
    /// Arguments that came before the name.
    early: Option<String>,
    /// Whether the call of this object has begun.
    begun: bool,
    /// Whether any of its arguments have been given.
    given: bool,
}

#[derive(Debug)]
enum State {
    /// Where an object, the next one, or the end is expected.
    Before,
    /// Where a key, a comma or the object's end is expected.
    Key,
    InKey(Span, String),
    Colon(String),
    Value(String),
    /// A value that is read as a whole.
    Whole(String, Span, String),
    /// Arguments that go out as they come.
    Flowing(Span),
}

impl Json {
    pub(crate) fn new(around: Around, tools: &[Tool]) -> Self {
        let known = if around.bare { tools.iter().map(|tool| tool.name.clone()).collect() } else { Vec::new() };
        Self {
            around,
            known,
            state: State::Before,
            list: false,
            calls: 0,
            tail: String::new(),
            name: None,
            early: None,
            begun: false,
            given: false,
        }
    }

    pub(crate) fn take(&mut self, c: char, out: &mut Out) -> Step {
        match std::mem::replace(&mut self.state, State::Before) {
            State::Before => self.before(c),
            State::Key => self.key(c, out),
            State::InKey(mut span, mut text) => {
                text.push(c);
                self.state = match span.take(c) {
                    At::Last => State::Colon(unquoted(&text)),
                    _ => State::InKey(span, text),
                };
                Step::More
            }
            State::Colon(key) => match c {
                ':' => self.go(State::Value(key)),
                c if c.is_whitespace() => self.go(State::Colon(key)),
                _ => Step::Fail,
            },
            State::Value(key) if c.is_whitespace() => self.go(State::Value(key)),
            State::Value(key) => self.value(key, c, out),
            State::Whole(key, span, text) => self.whole(key, span, text, c, out),
            State::Flowing(span) => self.flow(span, c, out),
        }
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::More
    }

    fn before(&mut self, c: char) -> Step {
        if self.tail.is_empty() {
            match c {
                '{' => return self.go(State::Key),
                '[' if !self.list && self.calls == 0 => {
                    self.list = true;
                    return Step::More;
                }
                ']' if self.list => {
                    self.list = false;
                    return if self.around.end.is_none() { Step::Done } else { Step::More };
                }
                ',' if self.list && self.calls > 0 => return Step::More,
                ';' if self.calls > 0 && self.around.end.is_none() => return Step::More,
                c if c.is_whitespace() => return Step::More,
                _ => {}
            }
        }
        let set: Vec<&'static str> = self.around.end.into_iter().collect();
        match here(&set, &mut self.tail, c) {
            Here::Mark(_) => Step::Done,
            Here::Growing => Step::More,
            Here::Other => Step::Fail,
        }
    }

    fn key(&mut self, c: char, out: &mut Out) -> Step {
        match c {
            '"' => {
                let mut span = Span::default();
                span.take(c);
                self.go(State::InKey(span, c.to_string()))
            }
            '}' => self.close(out),
            ',' => self.go(State::Key),
            c if c.is_whitespace() => self.go(State::Key),
            // The call is there; only its braces are not as they should be.
            c if self.begun => match self.close(out) {
                Step::More => {
                    out.settle_before();
                    self.before(c)
                }
                other => other,
            },
            _ => Step::Fail,
        }
    }

    fn value(&mut self, key: String, c: char, out: &mut Out) -> Step {
        let mut span = Span::default();
        if is_arguments(&key) && c == '{' && self.name.is_some() && !self.begun {
            return if self.begin(out) { self.flow(span, c, out) } else { Step::Fail };
        }
        if matches!(key.as_str(), "name" | "function") && c != '"' {
            return Step::Fail;
        }
        match span.take(c) {
            At::Beyond => Step::Fail,
            _ => self.go(State::Whole(key, span, c.to_string())),
        }
    }

    fn flow(&mut self, mut span: Span, c: char, out: &mut Out) -> Step {
        self.given = true;
        let mended = span.mended(c);
        let at = span.take(c);
        match mended {
            Some(mended) => out.arguments(&mended),
            None => out.arguments(c.encode_utf8(&mut [0; 4])),
        }
        self.go(if at == At::Last { State::Key } else { State::Flowing(span) })
    }

    fn whole(&mut self, key: String, mut span: Span, mut text: String, c: char, out: &mut Out) -> Step {
        let mended = span.mended(c);
        let at = span.take(c);
        if at != At::Beyond {
            match mended {
                Some(mended) => text.push_str(&mended),
                None => text.push(c),
            }
        }
        if at == At::Inside {
            return self.go(State::Whole(key, span, text));
        }
        match key.as_str() {
            "name" | "function" => self.name = Some(unquoted(&text)),
            key if is_arguments(key) && !self.begun => self.early = Some(arguments(&text)),
            _ => {}
        }
        if self.name.is_some() && self.early.is_some() && !self.begun && !self.begin(out) {
            return Step::Fail;
        }
        if at == At::Beyond { self.key(c, out) } else { self.go(State::Key) }
    }

    /// Begins the call if its name can be one, with the arguments that are there already.
    fn begin(&mut self, out: &mut Out) -> bool {
        let Some(name) = self.name.as_deref().filter(|name| is_name(name)) else { return false };
        if self.around.bare && !self.known.iter().any(|known| known == name) {
            return false;
        }
        out.call(name, None);
        self.begun = true;
        if let Some(early) = self.early.take() {
            out.arguments(&early);
            self.given = true;
        }
        true
    }

    /// The object has ended.
    fn close(&mut self, out: &mut Out) -> Step {
        if !self.begun && !self.begin(out) {
            return Step::Fail;
        }
        if !self.given {
            out.arguments("{}");
        }
        out.settle();
        self.calls += 1;
        (self.name, self.early, self.begun, self.given) = (None, None, false, false);
        self.go(State::Before)
    }

    /// Whether a call is under way when the text ends.
    pub(crate) fn finish(&self) -> bool {
        self.begun
    }
}

fn is_arguments(key: &str) -> bool {
    matches!(key, "arguments" | "parameters" | "args")
}

/// Arguments that were read as a whole: an object, or one in a string, or none.
fn arguments(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(Value::String(inside)) if inside.trim().is_empty() => "{}".to_owned(),
        Ok(Value::String(inside)) => inside,
        Ok(Value::Null) => "{}".to_owned(),
        _ => text.to_owned(),
    }
}

fn unquoted(text: &str) -> String {
    serde_json::from_str(text).unwrap_or_default()
}
