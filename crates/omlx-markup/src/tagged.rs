//! Calls whose parameters stand in tags of their own, as text: Qwen3-Coder, GLM, MiniMax M2, Step, DeepSeek V3.2.
//!
//! The arguments' JSON is written here, while the parameters come in. A parameter that its tool's schema calls a string goes out
//! character by character; another one is read as a whole, since only then its type is known.

use crate::machine::Step;
use crate::marks::{Here, Scan, here};
use crate::piece::Out;
use crate::span::{escaped, quoted};
use crate::tool::{Kind, Tool, as_json, is_name, kind};

/// The longest name of a tool or a parameter, with its tag's attributes.
const MOST_HEAD_BYTES: usize = 512;

/// The tags of a format.
#[derive(Debug)]
pub(crate) struct Tags {
    /// Ends the block; what begins it has been read already.
    pub(crate) end: &'static str,
    /// Up to the tool's name; empty where the name comes at once (GLM).
    pub(crate) call: &'static str,
    /// Behind the name.
    pub(crate) named: &'static str,
    pub(crate) close: &'static str,
    /// Up to a parameter's name.
    pub(crate) parameter: &'static str,
    /// Behind it.
    pub(crate) keyed: &'static str,
    /// What stands between a parameter's name and its value besides, blanks before it (GLM).
    pub(crate) value: &'static str,
    pub(crate) parameter_end: &'static str,
    /// What may stand between calls and means nothing.
    pub(crate) noise: &'static [&'static str],
    /// Whether a line break on either side of a value is the format's and not the value's.
    pub(crate) framed: bool,
}

pub(crate) const QWEN: Tags = Tags {
    end: "</tool_call>",
    call: "<function=",
    named: ">",
    close: "</function>",
    parameter: "<parameter=",
    keyed: ">",
    value: "",
    parameter_end: "</parameter>",
    noise: &[],
    framed: true,
};

pub(crate) const GLM: Tags = Tags {
    end: "</tool_call>",
    call: "",
    named: "",
    close: "</tool_call>",
    parameter: "<arg_key>",
    keyed: "</arg_key>",
    value: "<arg_value>",
    parameter_end: "</arg_value>",
    noise: &[],
    framed: false,
};

pub(crate) const MINIMAX: Tags = Tags {
    end: "</minimax:tool_call>",
    call: "<invoke name=",
    named: ">",
    close: "</invoke>",
    parameter: "<parameter name=",
    keyed: ">",
    value: "",
    parameter_end: "</parameter>",
    noise: &[],
    framed: true,
};

pub(crate) const STEP: Tags = Tags {
    end: "<｜tool_calls_end｜>",
    call: "<steptml:invoke name=",
    named: ">",
    close: "</steptml:invoke>",
    parameter: "<steptml:parameter name=",
    keyed: ">",
    value: "",
    parameter_end: "</steptml:parameter>",
    noise: &["<｜tool_call_begin｜>", "function", "<｜tool_sep｜>", "<｜tool_call_end｜>"],
    framed: false,
};

pub(crate) const DSML: Tags = Tags {
    end: "</｜DSML｜function_calls>",
    call: "<｜DSML｜invoke name=",
    named: ">",
    close: "</｜DSML｜invoke>",
    parameter: "<｜DSML｜parameter name=",
    keyed: ">",
    value: "",
    parameter_end: "</｜DSML｜parameter>",
    noise: &[],
    framed: false,
};

/// The same with another word around it, as of V4.
pub(crate) const DSML_CALLS: Tags = Tags { end: "</｜DSML｜tool_calls>", ..DSML };

/// Reads one block.
#[derive(Debug)]
pub(crate) struct Tagged {
    tags: &'static Tags,
    tools: Vec<Tool>,
    state: State,
    held: String,
    /// The call's name, once it has begun.
    name: Option<String>,
    /// Parameters of it so far.
    parameters: usize,
    /// Text between its parameters, which is given after it.
    stray: String,
}

#[derive(Debug)]
enum State {
    /// Where a call or the block's end is expected.
    Before,
    /// In a tool's name.
    Name,
    /// Where a parameter or the call's end is expected.
    Between,
    Key,
    /// Where the tag that begins a value is expected.
    Opening(String),
    Value(Value),
    /// The call is over and its block's end is expected; nothing is amiss where it is not there.
    Ended,
}

#[derive(Debug)]
struct Value {
    scan: Scan,
    kind: Kind,
    /// The value so far, where it is read as a whole; else what may be the line break before the tag that ends it.
    text: String,
    first: bool,
}

impl Tagged {
    pub(crate) fn new(tags: &'static Tags, tools: &[Tool]) -> Self {
        let state = if tags.call.is_empty() { State::Name } else { State::Before };
        let (held, stray) = (String::new(), String::new());
        Self { tags, tools: tools.to_vec(), state, held, name: None, parameters: 0, stray }
    }

    /// The same, where the block began with the call's own tag.
    pub(crate) fn at_name(tags: &'static Tags, tools: &[Tool]) -> Self {
        Self { state: State::Name, ..Self::new(tags, tools) }
    }

    pub(crate) fn take(&mut self, c: char, out: &mut Out) -> Step {
        match std::mem::replace(&mut self.state, State::Before) {
            State::Before => self.before(c),
            State::Name => self.naming(c, out),
            State::Between => self.between(c, out),
            State::Key => self.keying(c, out),
            State::Opening(key) if self.held.is_empty() && c.is_whitespace() => self.go(State::Opening(key)),
            State::Opening(key) => match here(&[self.tags.value], &mut self.held, c) {
                Here::Growing => self.go(State::Opening(key)),
                Here::Mark(_) => self.open(&key, None, out),
                Here::Other => {
                    self.stray.push_str(&std::mem::take(&mut self.held));
                    self.go(State::Between)
                }
            },
            State::Value(value) => self.value(value, c, out),
            State::Ended => self.before(c),
        }
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::More
    }

    fn before(&mut self, c: char) -> Step {
        if self.held.is_empty() && c.is_whitespace() {
            return self.go(State::Before);
        }
        let mut set = vec![self.tags.end];
        if !self.tags.call.is_empty() {
            set.push(self.tags.call);
        }
        set.extend(self.tags.noise);
        match here(&set, &mut self.held, c) {
            Here::Growing => self.go(State::Before),
            Here::Mark(0) => Step::Done,
            Here::Mark(at) if set[at] == self.tags.call => self.go(State::Name),
            Here::Mark(_) => self.go(State::Before),
            Here::Other => Step::Fail,
        }
    }

    fn naming(&mut self, c: char, out: &mut Out) -> Step {
        self.held.push(c);
        if self.held.len() > MOST_HEAD_BYTES {
            return Step::Fail;
        }
        if !self.tags.call.is_empty() {
            let Some(head) = self.held.strip_suffix(self.tags.named) else { return self.go(State::Name) };
            let name = attribute(head).to_owned();
            self.held.clear();
            return self.begin(&name, out);
        }
        // The name ends where its line does or a tag begins.
        let ends = self.held.ends_with('\n') && !self.held.trim().is_empty();
        for (tag, closes) in [(self.tags.parameter, false), (self.tags.close, true)] {
            if let Some(head) = self.held.strip_suffix(tag) {
                let name = head.trim().to_owned();
                self.held.clear();
                return match self.begin(&name, out) {
                    Step::More if closes => self.close(out),
                    Step::More => self.go(State::Key),
                    other => other,
                };
            }
        }
        match ends {
            true => {
                let name = self.held.trim().to_owned();
                self.held.clear();
                self.begin(&name, out)
            }
            false => self.go(State::Name),
        }
    }

    fn begin(&mut self, name: &str, out: &mut Out) -> Step {
        if !is_name(name) {
            return Step::Fail;
        }
        out.call(name, None);
        (self.name, self.parameters) = (Some(name.to_owned()), 0);
        self.go(State::Between)
    }

    fn between(&mut self, c: char, out: &mut Out) -> Step {
        if self.held.is_empty() && c.is_whitespace() {
            return self.go(State::Between);
        }
        let set = [self.tags.parameter, self.tags.close, self.tags.end];
        match here(&set, &mut self.held, c) {
            Here::Growing => self.go(State::Between),
            Here::Mark(0) => self.go(State::Key),
            Here::Mark(at) => match self.close(out) {
                // The call's own end may be missing.
                Step::More if at == 2 => Step::Done,
                other => other,
            },
            Here::Other => {
                self.stray.push_str(&std::mem::take(&mut self.held));
                self.go(State::Between)
            }
        }
    }

    fn keying(&mut self, c: char, out: &mut Out) -> Step {
        self.held.push(c);
        let Some(head) = self.held.strip_suffix(self.tags.keyed) else {
            if self.held.len() > MOST_HEAD_BYTES {
                self.stray.push_str(&std::mem::take(&mut self.held));
                return self.go(State::Between);
            }
            return self.go(State::Key);
        };
        // `string="true"` of DeepSeek says of which type the value is.
        let said = match head {
            head if head.contains("string=\"true\"") => Some(Kind::Text),
            head if head.contains("string=\"false\"") => Some(Kind::Json),
            _ => None,
        };
        let key = attribute(head).to_owned();
        self.held.clear();
        if self.tags.value.is_empty() { self.open(&key, said, out) } else { self.go(State::Opening(key)) }
    }

    /// Begins a parameter's value.
    fn open(&mut self, key: &str, said: Option<Kind>, out: &mut Out) -> Step {
        let kind = said.unwrap_or_else(|| kind(&self.tools, self.name.as_deref().unwrap_or_default(), key));
        out.arguments(if self.parameters == 0 { "{" } else { ", " });
        out.arguments(&quoted(key));
        out.arguments(": ");
        if kind == Kind::Text {
            out.arguments("\"");
        }
        self.parameters += 1;
        let scan = Scan::new(vec![self.tags.parameter_end]);
        self.go(State::Value(Value { scan, kind, text: String::new(), first: true }))
    }

    fn value(&mut self, mut value: Value, c: char, out: &mut Out) -> Step {
        let mut free = String::new();
        let ended = value.scan.take(c, &mut free).is_some();
        for c in free.chars() {
            value.add(c, self.tags.framed, out);
        }
        if !ended {
            return self.go(State::Value(value));
        }
        value.close(self.tags.framed, out);
        self.go(State::Between)
    }

    fn close(&mut self, out: &mut Out) -> Step {
        out.arguments(if self.parameters == 0 { "{}" } else { "}" });
        self.name = None;
        out.text(&std::mem::take(&mut self.stray));
        out.settle();
        // GLM's call is its block.
        if self.tags.close == self.tags.end { Step::Done } else { self.go(State::Ended) }
    }

    /// Whether a call is under way when the text ends. One that the model ended without its tags is closed; one that was cut
    /// stays open, or it would look complete.
    pub(crate) fn finish(&mut self, cut: bool, out: &mut Out) -> bool {
        if self.name.is_none() {
            return false;
        }
        let held = std::mem::take(&mut self.held);
        if let State::Value(mut value) = std::mem::replace(&mut self.state, State::Between) {
            let rest = value.scan.rest();
            rest.chars().for_each(|c| value.add(c, self.tags.framed, out));
            match (cut, value.kind) {
                (false, _) => value.close(self.tags.framed, out),
                (true, Kind::Json) => out.arguments(&value.text),
                (true, Kind::Text) => value.text.chars().for_each(|c| out.arguments(&escaped(c))),
            }
        } else {
            self.stray.push_str(&held);
        }
        if !cut {
            out.arguments(if self.parameters == 0 { "{}" } else { "}" });
        }
        out.text(&std::mem::take(&mut self.stray));
        true
    }
}

impl Value {
    fn add(&mut self, c: char, framed: bool, out: &mut Out) {
        if std::mem::take(&mut self.first) && framed && c == '\n' {
            return;
        }
        match self.kind {
            Kind::Json => self.text.push(c),
            // A line break may be the one before the end.
            Kind::Text if framed && c == '\n' => {
                let before = std::mem::replace(&mut self.text, "\n".to_owned());
                before.chars().for_each(|c| out.arguments(&escaped(c)));
            }
            Kind::Text => {
                let before = std::mem::take(&mut self.text);
                before.chars().chain([c]).for_each(|c| out.arguments(&escaped(c)));
            }
        }
    }

    fn close(&mut self, framed: bool, out: &mut Out) {
        match self.kind {
            Kind::Json => {
                let text = if framed { self.text.strip_suffix('\n').unwrap_or(&self.text) } else { &self.text };
                out.arguments(&as_json(text));
            }
            Kind::Text => out.arguments("\""),
        }
        self.text.clear();
    }
}

/// A name as it stands in a tag: plain or in quotes, with further attributes behind it.
fn attribute(head: &str) -> &str {
    let head = head.trim();
    for quote in ['"', '\''] {
        if let Some(rest) = head.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or(rest);
        }
    }
    head
}
