//! Calls as a name and plain JSON behind it: Mistral (`[TOOL_CALLS]name[ARGS]{..}`), Kimi K2, DeepSeek V3 and V3.1.

use crate::json::{Around, Json};
use crate::machine::{Machine, Step};
use crate::marks::{Here, here};
use crate::piece::Out;
use crate::span::{At, Span};
use crate::tool::{Tool, is_name};

/// The longest head of a call; a longer text is none.
const MOST_HEAD_BYTES: usize = 512;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Mistral,
    Kimi,
    DeepSeek,
}

impl Style {
    /// What begins a call inside a block; none where the block is one call.
    fn open(self) -> Option<&'static str> {
        match self {
            Style::Mistral => None,
            Style::Kimi => Some("<|tool_call_begin|>"),
            Style::DeepSeek => Some("<｜tool▁call▁begin｜>"),
        }
    }

    /// Between name and arguments.
    fn sep(self) -> &'static str {
        match self {
            Style::Mistral => "[ARGS]",
            Style::Kimi => "<|tool_call_argument_begin|>",
            Style::DeepSeek => "<｜tool▁sep｜>",
        }
    }

    fn close(self) -> Option<&'static str> {
        match self {
            Style::Mistral => None,
            Style::Kimi => Some("<|tool_call_end|>"),
            Style::DeepSeek => Some("<｜tool▁call▁end｜>"),
        }
    }

    pub(crate) fn end(self) -> Option<&'static str> {
        match self {
            Style::Mistral => None,
            Style::Kimi => Some("<|tool_calls_section_end|>"),
            Style::DeepSeek => Some("<｜tool▁calls▁end｜>"),
        }
    }
}

/// Reads one block.
#[derive(Debug)]
pub(crate) struct Headed {
    style: Style,
    tools: Vec<Tool>,
    state: State,
    held: String,
}

#[derive(Debug)]
enum State {
    /// Where a call or the block's end is expected.
    Before,
    Head,
    /// DeepSeek V3: the name stands on the line behind the separator.
    Line,
    /// Where the arguments are expected.
    Start(Call),
    Flowing(Span),
    /// Where the call's end is expected.
    After,
}

#[derive(Debug)]
struct Call {
    name: String,
    id: Option<String>,
}

impl Headed {
    pub(crate) fn new(style: Style, tools: &[Tool]) -> Self {
        let state = if style.open().is_some() { State::Before } else { State::Head };
        Self { style, tools: tools.to_vec(), state, held: String::new() }
    }

    pub(crate) fn take(&mut self, c: char, out: &mut Out) -> Step {
        match std::mem::replace(&mut self.state, State::Before) {
            State::Before => self.before(c),
            State::Head => self.head(c, out),
            State::Line => {
                if c != '\n' {
                    self.held.push(c);
                    return if self.held.len() > MOST_HEAD_BYTES { Step::Fail } else { self.go(State::Line) };
                }
                let name = std::mem::take(&mut self.held);
                self.named(name.trim(), None)
            }
            State::Start(call) => self.start(call, c, out),
            State::Flowing(span) => self.flow(span, c, out),
            State::After => self.after(c),
        }
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::More
    }

    fn before(&mut self, c: char) -> Step {
        if self.held.is_empty() && c.is_whitespace() {
            return Step::More;
        }
        let set: Vec<&'static str> = self.style.open().into_iter().chain(self.style.end()).collect();
        match here(&set, &mut self.held, c) {
            Here::Growing => Step::More,
            Here::Mark(0) => self.go(State::Head),
            Here::Mark(_) => Step::Done,
            Here::Other => Step::Fail,
        }
    }

    fn head(&mut self, c: char, out: &mut Out) -> Step {
        if self.style == Style::Mistral {
            if self.held.is_empty() {
                match c {
                    // The older form: a list of objects.
                    '[' | '{' => {
                        let mut json = Json::new(Around::default(), &self.tools);
                        return match json.take(c, out) {
                            Step::More => Step::Become(Box::new(Machine::Json(json))),
                            other => other,
                        };
                    }
                    c if c.is_whitespace() => return self.go(State::Head),
                    _ => {}
                }
            }
            if c == '{' {
                let name = std::mem::take(&mut self.held);
                return match self.named(name.trim(), None) {
                    Step::More => self.take(c, out),
                    other => other,
                };
            }
        }
        self.held.push(c);
        let Some(head) = self.held.strip_suffix(self.style.sep()) else {
            return if self.held.len() > MOST_HEAD_BYTES { Step::Fail } else { self.go(State::Head) };
        };
        let head = head.trim().to_owned();
        self.held.clear();
        match self.style {
            Style::Mistral => match head.split_once("[CALL_ID]") {
                Some((name, id)) => self.named(name.trim(), Some(id.trim().to_owned())),
                None => self.named(&head, None),
            },
            Style::Kimi => {
                // `functions.NAME:3`
                let plain = head.strip_prefix("functions.").unwrap_or(&head);
                let name = match plain.rsplit_once(':') {
                    Some((name, count)) if count.bytes().all(|b| b.is_ascii_digit()) => name.to_owned(),
                    _ => plain.to_owned(),
                };
                self.named(&name, Some(head))
            }
            Style::DeepSeek if head == "function" => self.go(State::Line),
            Style::DeepSeek => self.named(&head, None),
        }
    }

    fn named(&mut self, name: &str, id: Option<String>) -> Step {
        match is_name(name) {
            true => self.go(State::Start(Call { name: name.to_owned(), id })),
            false => Step::Fail,
        }
    }

    fn start(&mut self, call: Call, c: char, out: &mut Out) -> Step {
        if self.held.is_empty() && c == '{' {
            out.call(&call.name, call.id);
            return self.flow(Span::default(), c, out);
        }
        if self.held.is_empty() && c.is_whitespace() {
            return self.go(State::Start(call));
        }
        match here(&["```json"], &mut self.held, c) {
            Here::Other => Step::Fail,
            _ => self.go(State::Start(call)),
        }
    }

    fn flow(&mut self, mut span: Span, c: char, out: &mut Out) -> Step {
        let mended = span.mended(c);
        let at = span.take(c);
        match mended {
            Some(mended) => out.arguments(&mended),
            None => out.arguments(c.encode_utf8(&mut [0; 4])),
        }
        if at != At::Last {
            return self.go(State::Flowing(span));
        }
        out.settle();
        if self.style == Style::Mistral { Step::Done } else { self.go(State::After) }
    }

    fn after(&mut self, c: char) -> Step {
        if self.held.is_empty() && c.is_whitespace() {
            return self.go(State::After);
        }
        let set: Vec<&'static str> = ["```"].into_iter().chain(self.style.close()).chain(self.style.end()).collect();
        match here(&set, &mut self.held, c) {
            Here::Growing | Here::Mark(0) => self.go(State::After),
            Here::Mark(1) => self.go(State::Before),
            Here::Mark(_) => Step::Done,
            Here::Other => Step::Fail,
        }
    }

    /// Whether a call is under way when the text ends.
    pub(crate) fn finish(&self) -> bool {
        matches!(self.state, State::Flowing(_))
    }
}
