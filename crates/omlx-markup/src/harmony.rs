//! The channels of gpt-oss: `<|channel|>analysis<|message|>..<|end|><|start|>assistant<|channel|>final<|message|>..`.
//!
//! Every text is a message with a head that says what it is: thinking, a call (`to=functions.NAME`), or content.

use crate::marks::{Here, Scan, here};
use crate::parser::Start;
use crate::piece::Out;
use crate::tool::is_name;

/// The longest head; a longer text is none.
const MOST_HEAD_BYTES: usize = 512;

/// What may stand where a message begins.
const BEGINS: [&str; 5] = ["<|start|>", "<|channel|>", MESSAGE, "assistant", " to="];
const MESSAGE: &str = "<|message|>";
/// What ends a message. The last one begins the head of the next.
const ENDS: [&str; 5] = ["<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"];

/// Reads an answer.
#[derive(Debug)]
pub(crate) struct Harmony {
    /// Whether calls may be made.
    tools: bool,
    state: State,
    head: String,
}

#[derive(Debug)]
enum State {
    /// Where a head is expected; `true` behind the mark that begins a message.
    Before(bool),
    Head,
    Body(Kind, Scan),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Thought,
    Text,
    Call,
}

impl Harmony {
    pub(crate) fn new(tools: bool, start: Start) -> Self {
        let body = |kind| State::Body(kind, Scan::new(ENDS.to_vec()));
        let state = match start {
            Start::Fresh => State::Before(false),
            Start::Thought => body(Kind::Thought),
            Start::Content => body(Kind::Text),
        };
        Self { tools, state, head: String::new() }
    }

    pub(crate) fn take(&mut self, c: char, out: &mut Out) {
        match std::mem::replace(&mut self.state, State::Before(false)) {
            State::Before(started) => match here(&BEGINS, &mut self.head, c) {
                Here::Growing => self.state = State::Before(started),
                Here::Mark(0) => self.state = State::Before(true),
                Here::Mark(1) => self.begin_head("<|channel|>"),
                Here::Mark(2) => self.open("", out),
                Here::Mark(3) if started => self.state = State::Before(false),
                Here::Mark(3) => {
                    self.head.push_str(BEGINS[3]);
                    self.plain(out);
                }
                Here::Mark(_) => self.begin_head(" to="),
                // Content without a head.
                Here::Other => self.plain(out),
            },
            State::Head => {
                self.head.push(c);
                if let Some(head) = self.head.strip_suffix(MESSAGE) {
                    let head = head.to_owned();
                    self.open(&head, out);
                } else if self.head.len() > MOST_HEAD_BYTES {
                    self.plain(out);
                } else {
                    self.state = State::Head;
                }
            }
            State::Body(kind, mut scan) => {
                let mut free = String::new();
                let ended = scan.take(c, &mut free);
                give(kind, &free, out);
                match ended {
                    None => self.state = State::Body(kind, scan),
                    Some(at) => {
                        out.settle();
                        match ENDS[at] {
                            "<|channel|>" => self.begin_head("<|channel|>"),
                            end => self.state = State::Before(end == "<|start|>"),
                        }
                    }
                }
            }
        }
    }

    fn begin_head(&mut self, so_far: &str) {
        self.head = so_far.to_owned();
        self.state = State::Head;
    }

    /// What was taken for a head is content.
    fn plain(&mut self, out: &mut Out) {
        self.state = State::Body(Kind::Text, Scan::new(ENDS.to_vec()));
        let text = std::mem::take(&mut self.head);
        text.chars().for_each(|c| self.take(c, out));
    }

    fn open(&mut self, head: &str, out: &mut Out) {
        self.head.clear();
        let to = head
            .split_once("to=")
            .map(|(_, rest)| rest.split(|c: char| c.is_whitespace() || c == '<').next().unwrap_or_default());
        let channel = head.split_once("<|channel|>").map(|(_, rest)| rest.trim_start());
        let name = to.and_then(|to| to.strip_prefix("functions.")).filter(|name| is_name(name));
        let kind = match name {
            Some(name) if self.tools => {
                out.call(name, None);
                Kind::Call
            }
            _ if channel.is_some_and(|channel| channel.starts_with("analysis")) => Kind::Thought,
            _ => Kind::Text,
        };
        self.state = State::Body(kind, Scan::new(ENDS.to_vec()));
    }

    pub(crate) fn is_thinking(&self) -> bool {
        matches!(self.state, State::Body(Kind::Thought, _))
    }

    pub(crate) fn finish(&mut self, out: &mut Out) {
        match std::mem::replace(&mut self.state, State::Before(false)) {
            State::Body(kind, mut scan) => give(kind, &scan.rest(), out),
            State::Before(_) | State::Head => out.text(&std::mem::take(&mut self.head)),
        }
    }
}

fn give(kind: Kind, text: &str, out: &mut Out) {
    match kind {
        Kind::Thought => out.thought(text),
        Kind::Text => out.text(text),
        Kind::Call => out.arguments(text),
    }
}
