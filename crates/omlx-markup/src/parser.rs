//! From the text that a model writes to pieces: thoughts, calls, content.
//!
//! The text is read one character after the other, so where it was cut cannot matter, and a stream and a whole answer cannot differ.
//! What must stay true: every character comes out as content, thought or argument, or belongs to a mark that was understood (blanks
//! around a mark are part of it). What begins like a call and is none comes out as content.

use crate::format::{Format, Markup, Opener, Thinking, bare, openers};
use crate::harmony::Harmony;
use crate::machine::{Machine, Step};
use crate::marks::Scan;
use crate::piece::{Out, Piece, Settled};
use crate::tool::Tool;

/// Where an answer begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At its very beginning.
    #[default]
    Fresh,
    /// Inside a thought that the prompt has opened.
    Thought,
    /// Inside content that the prompt has begun.
    Content,
}

/// Takes one answer apart.
#[derive(Debug)]
pub struct Parser {
    out: Out,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    /// Everything is content.
    Plain,
    Marked(Box<Marked>),
    Harmony(Harmony),
}

impl Parser {
    /// For one answer. Without `tools` no call is looked for: what looks like one is content.
    pub fn new(markup: Markup, start: Start, tools: &[Tool]) -> Self {
        let format = markup.format.filter(|_| !tools.is_empty());
        let inner = match (markup.format, markup.thinking) {
            (Some(Format::Harmony), _) => Inner::Harmony(Harmony::new(!tools.is_empty(), start)),
            (_, None) if format.is_none() => Inner::Plain,
            (_, thinking) => Inner::Marked(Box::new(Marked::new(format, thinking, start, tools))),
        };
        Self { out: Out::default(), inner }
    }

    /// Whether what comes next is a thought, as far as is known.
    pub fn is_thinking(&self) -> bool {
        match &self.inner {
            Inner::Plain => false,
            Inner::Marked(marked) => matches!(marked.mode, Mode::Thought { .. }),
            Inner::Harmony(harmony) => harmony.is_thinking(),
        }
    }

    /// Takes more text; gives what is certain now.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        match &mut self.inner {
            Inner::Plain => self.out.text(text),
            Inner::Marked(marked) => text.chars().for_each(|c| marked.take(c, &mut self.out)),
            Inner::Harmony(harmony) => text.chars().for_each(|c| harmony.take(c, &mut self.out)),
        }
        self.out.take()
    }

    /// Ends the answer: gives what was held back. `cut` says that a limit ended it and not the model.
    pub fn finish(&mut self, cut: bool) -> Vec<Piece> {
        match &mut self.inner {
            Inner::Plain => {}
            Inner::Marked(marked) => marked.finish(cut, &mut self.out),
            Inner::Harmony(harmony) => harmony.finish(&mut self.out),
        }
        self.out.take()
    }
}

/// What a mark in the text means.
#[derive(Clone, Copy, Debug)]
enum Mark {
    Think,
    ThinkEnd,
    Open(Opener),
    /// The end of a block that was left before it.
    Owed,
}

/// Which blanks are still the last mark's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    /// Line breaks behind a thought.
    Thought,
    /// All blanks behind a call.
    Block,
}

#[derive(Debug)]
struct Marked {
    format: Option<Format>,
    thinking: Option<Thinking>,
    tools: Vec<Tool>,
    mode: Mode,
    /// Blanks that may belong to a mark behind them; in a thought, line breaks.
    gap: String,
    after: After,
    /// Nothing but blanks and thoughts has come yet.
    fresh: bool,
    /// What ends the block that was left.
    owed: Option<&'static str>,
}

#[derive(Debug)]
enum Mode {
    Text(Scan, Vec<Mark>),
    Thought { scan: Scan, marks: Vec<Mark>, begun: bool },
    Block(Box<Block>),
}

#[derive(Debug)]
struct Block {
    machine: Machine,
    /// What began it.
    opening: String,
    end: Option<&'static str>,
    /// What has come since, or since its last call.
    raw: String,
    /// Whether a call in it has begun.
    settled: bool,
}

impl Marked {
    fn new(format: Option<Format>, thinking: Option<Thinking>, start: Start, tools: &[Tool]) -> Self {
        let mut marked = Self {
            format,
            thinking,
            tools: tools.to_vec(),
            mode: Mode::Text(Scan::default(), Vec::new()),
            gap: String::new(),
            after: After::Nothing,
            fresh: start != Start::Content,
            owed: None,
        };
        match (start, thinking) {
            (Start::Thought, Some(thinking)) => marked.enter_thought(thinking),
            _ => marked.enter_text(After::Nothing),
        }
        marked
    }

    fn enter_text(&mut self, after: After) {
        let open = self.format.map_or(&[][..], openers).iter().map(|opener| (opener.mark, Mark::Open(*opener)));
        let think = self.thinking.map(|thinking| (thinking.open, Mark::Think));
        let owed = self.owed.map(|mark| (mark, Mark::Owed));
        let (set, marks) = think.into_iter().chain(open).chain(owed).unzip();
        self.after = after;
        self.mode = Mode::Text(Scan::new(set), marks);
    }

    fn enter_thought(&mut self, thinking: Thinking) {
        self.gap.clear();
        let special = self.format.map_or(&[][..], openers).iter().filter(|opener| opener.thinking);
        let special = special.map(|opener| (opener.mark, Mark::Open(*opener)));
        let own = [(thinking.close, Mark::ThinkEnd), (thinking.open, Mark::Think)];
        let (set, marks) = own.into_iter().chain(special).unzip();
        self.mode = Mode::Thought { scan: Scan::new(set), marks, begun: false };
    }

    fn take(&mut self, c: char, out: &mut Out) {
        let Some(back) = self.step(c, out) else { return };
        let mut waiting: Vec<char> = back.chars().rev().collect();
        while let Some(c) = waiting.pop() {
            if let Some(back) = self.step(c, out) {
                waiting.extend(back.chars().rev());
            }
        }
    }

    /// Takes a character; gives back what has to be read anew.
    fn step(&mut self, c: char, out: &mut Out) -> Option<String> {
        match &mut self.mode {
            Mode::Text(scan, marks) => {
                if self.fresh && !scan.is_growing() {
                    let machine = self.format.and_then(|format| bare(format, c, &self.tools));
                    if let Some(machine) = machine {
                        return self.enter_bare(machine, c, out);
                    }
                }
                let mut free = String::new();
                let found = scan.take(c, &mut free).map(|at| marks[at]);
                free.chars().for_each(|c| self.plain(c, out));
                if let Some(mark) = found {
                    self.marked(mark);
                }
                None
            }
            Mode::Thought { scan, marks, begun } => {
                let mut free = String::new();
                let found = scan.take(c, &mut free).map(|at| marks[at]);
                for c in free.chars() {
                    match c {
                        '\n' if !*begun => {}
                        '\n' => self.gap.push(c),
                        c => {
                            *begun = true;
                            out.thought(&std::mem::take(&mut self.gap));
                            out.thought(c.encode_utf8(&mut [0; 4]));
                        }
                    }
                }
                match found {
                    // Some models repeat the mark that their prompt ends in.
                    Some(Mark::Think) if !*begun => {}
                    Some(Mark::Think) => {
                        out.thought(&std::mem::take(&mut self.gap));
                        out.thought(self.thinking.map_or("", |thinking| thinking.open));
                    }
                    Some(mark) => self.marked(mark),
                    None => {}
                }
                None
            }
            Mode::Block(_) => self.in_block(c, out),
        }
    }

    /// A character of content.
    fn plain(&mut self, c: char, out: &mut Out) {
        let blank = c.is_whitespace();
        match self.after {
            After::Block if blank => return,
            After::Thought if c == '\n' => return,
            _ => self.after = After::Nothing,
        }
        if blank {
            self.gap.push(c);
            return;
        }
        self.fresh = false;
        out.text(&std::mem::take(&mut self.gap));
        out.text(c.encode_utf8(&mut [0; 4]));
    }

    fn marked(&mut self, mark: Mark) {
        match (mark, self.thinking) {
            (Mark::Think, Some(thinking)) => self.enter_thought(thinking),
            (Mark::Open(opener), _) => {
                if let Mode::Thought { .. } = self.mode {
                    self.gap.clear();
                }
                let machine = opener.machine(&self.tools);
                self.enter_block(machine, opener.mark.to_owned(), opener.end);
            }
            (Mark::ThinkEnd, _) => {
                self.gap.clear();
                self.enter_text(After::Thought);
            }
            (Mark::Owed, _) => {
                (self.owed, self.gap) = (None, String::new());
                self.enter_text(After::Block);
            }
            (Mark::Think, None) => {}
        }
    }

    fn enter_block(&mut self, machine: Machine, opening: String, end: Option<&'static str>) {
        self.mode = Mode::Block(Box::new(Block { machine, opening, end, raw: String::new(), settled: false }));
    }

    fn enter_bare(&mut self, mut machine: Machine, c: char, out: &mut Out) -> Option<String> {
        match machine.take(c, out) {
            Step::More => self.enter_block(machine, c.to_string(), None),
            _ => self.plain(c, out),
        }
        None
    }

    fn in_block(&mut self, c: char, out: &mut Out) -> Option<String> {
        let Mode::Block(block) = &mut self.mode else { return None };
        block.raw.push(c);
        let mut step = block.machine.take(c, out);
        if let Step::Become(machine) = step {
            block.machine = *machine;
            step = Step::More;
        }
        if let Some(settled) = out.take_settled() {
            block.settled = true;
            block.raw.clear();
            self.gap.clear();
            self.fresh = false;
            if settled == Settled::Before {
                block.raw.push(c);
            }
        }
        match step {
            Step::More | Step::Become(_) => None,
            Step::Done => {
                self.owed = None;
                // A block of nothing is content like everything else that is no call.
                if block.settled {
                    self.enter_text(After::Block);
                    return None;
                }
                self.leave(out)
            }
            Step::Fail => self.leave(out),
        }
    }

    /// Leaves a block where it is none: gives back what has to be read anew.
    fn leave(&mut self, out: &mut Out) -> Option<String> {
        let Mode::Block(block) = std::mem::replace(&mut self.mode, Mode::Text(Scan::default(), Vec::new())) else {
            return None;
        };
        let Block { opening, end, raw, settled, .. } = *block;
        if settled {
            self.owed = end;
            self.enter_text(After::Block);
        } else {
            self.fresh = false;
            out.text(&std::mem::take(&mut self.gap));
            out.text(&opening);
            self.enter_text(After::Nothing);
        }
        Some(raw)
    }

    fn finish(&mut self, cut: bool, out: &mut Out) {
        loop {
            match &mut self.mode {
                Mode::Text(scan, _) => {
                    let rest = scan.rest();
                    rest.chars().for_each(|c| self.plain(c, out));
                    return out.text(&std::mem::take(&mut self.gap));
                }
                Mode::Thought { scan, .. } => {
                    let rest = std::mem::take(&mut self.gap) + &scan.rest();
                    return out.thought(&rest);
                }
                Mode::Block(block) => {
                    if block.machine.finish(cut, out) {
                        return;
                    }
                    let Some(back) = self.leave(out) else { return };
                    back.chars().for_each(|c| self.take(c, out));
                }
            }
        }
    }
}
