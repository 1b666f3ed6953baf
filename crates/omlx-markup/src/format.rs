//! The formats that models write calls and thoughts in, and which one a model's chat template speaks of.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::gemma::{self, Gemma};
use crate::headed::{Headed, Style};
use crate::json::{Around, Json};
use crate::machine::{Fork, Machine};
use crate::parser::Start;
use crate::python::Python;
use crate::tagged::{self, Tagged};
use crate::tool::Tool;

/// How a model writes its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// `<tool_call>{"name": .., "arguments": {..}}</tool_call>`: Hermes, Qwen 2.5 and 3.
    Hermes,
    /// `<tool_call><function=NAME><parameter=KEY>..`: Qwen3-Coder, Step 3.5, Nemotron 3.
    QwenXml,
    /// `{"name": .., "parameters": {..}}` alone: Llama 3.
    Llama3,
    /// `[NAME(key=value)]`: Llama 4 and the smaller Llama 3.2, LFM2.
    Pythonic,
    /// `[TOOL_CALLS]`.
    Mistral,
    /// `call:NAME{key:value}`: FunctionGemma and Gemma 4.
    Gemma,
    /// `<tool_call>NAME<arg_key>..`: GLM 4.5 and later.
    Glm,
    /// `<|tool_calls_section_begin|>`: Kimi K2.
    Kimi,
    /// `<｜tool▁calls▁begin｜>`: DeepSeek V3, R1 and V3.1.
    DeepSeek,
    /// `<｜DSML｜function_calls>`: DeepSeek V3.2 and later.
    DeepSeekXml,
    /// The channels of gpt-oss.
    Harmony,
    /// `<steptml:invoke name="..">`: Step 3.
    Step,
    /// `<minimax:tool_call>`: MiniMax M2.
    MiniMax,
    /// `<tool_calls>` with JSON: MiniMax M1.
    MiniMaxM1,
}

/// All formats, with the names that users write, and what in a template gives them away. The order is that of looking: what several
/// templates have in common stands last.
const FORMATS: [(Format, &str, &[&str]); 14] = [
    (Format::Harmony, "harmony", &["<|channel|>"]),
    (Format::Kimi, "kimi_k2", &["<|tool_calls_section_begin|>"]),
    (Format::DeepSeekXml, "deepseek_v32", &["｜DSML｜"]),
    (Format::DeepSeek, "deepseek", &["<｜tool▁calls▁begin｜>"]),
    (Format::Step, "step3", &["steptml:"]),
    (Format::MiniMax, "minimax_m2", &["<minimax:tool_call>"]),
    (Format::Mistral, "mistral", &["[TOOL_CALLS]"]),
    (Format::Gemma, "gemma", &["<start_function_call>", "<|tool_call>"]),
    (Format::Glm, "glm", &["<arg_key>"]),
    (Format::QwenXml, "qwen3_coder", &["<function="]),
    (Format::Hermes, "hermes", &["<tool_call>"]),
    (Format::MiniMaxM1, "minimax_m1", &["<tool_calls>"]),
    (Format::Pythonic, "pythonic", &["<|tool_call_start|>", "<|python_start|>", "func_name1("]),
    (Format::Llama3, "llama3_json", &["<|python_tag|>", "\"parameters\": dictionary of argument"]),
];

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{name}` is no {what}; there are {}", known.join(", "))]
pub struct UnknownName {
    /// What was written.
    pub name: String,
    /// What was meant to be named.
    pub what: &'static str,
    /// The names there are.
    pub known: Vec<&'static str>,
}

/// As names are compared: `-` is as good as `_`, and case does not count.
fn plain(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace('-', "_")
}

impl FromStr for Format {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let wanted = plain(name);
        let found = FORMATS.iter().find(|(_, known, _)| *known == wanted).map(|(format, ..)| *format);
        found.ok_or_else(|| UnknownName {
            name: name.to_owned(),
            what: "tool format",
            known: FORMATS.iter().map(|(_, name, _)| *name).collect(),
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FORMATS.iter().find(|(format, ..)| format == self).map_or("", |(_, name, _)| name);
        f.write_str(name)
    }
}

/// What a model puts around its thoughts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thinking {
    name: &'static str,
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
}

const THINKING: [Thinking; 5] = [
    Thinking { name: "think", open: "<think>", close: "</think>" },
    Thinking { name: "mistral", open: "[THINK]", close: "[/THINK]" },
    Thinking { name: "seed", open: "<seed:think>", close: "</seed:think>" },
    Thinking { name: "gemma4", open: "<|channel>thought\n", close: "<channel|>" },
    Thinking { name: "kimi_vl", open: "◁think▷", close: "◁/think▷" },
];

impl FromStr for Thinking {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let wanted = plain(name);
        THINKING.into_iter().find(|thinking| thinking.name == wanted).ok_or_else(|| UnknownName {
            name: name.to_owned(),
            what: "thinking format",
            known: THINKING.iter().map(|thinking| thinking.name).collect(),
        })
    }
}

impl fmt::Display for Thinking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What a model writes besides content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Markup {
    /// Its calls.
    pub format: Option<Format>,
    /// Its thoughts; harmony has them among its channels.
    pub thinking: Option<Thinking>,
}

impl Markup {
    /// What a chat template speaks of. A model whose vocabulary has the marks of thoughts as tokens thinks, whatever its template says:
    /// `is_token` answers that.
    pub fn of_template(template: &str, is_token: impl Fn(&str) -> bool) -> Self {
        let says = |marks: &[&str]| marks.iter().any(|mark| template.contains(mark));
        let format = FORMATS.iter().find(|(_, _, marks)| says(marks)).map(|(format, ..)| *format);
        let known = |thinking: &Thinking| {
            let marks = [thinking.open.trim_end(), thinking.close];
            says(&marks) || marks.iter().all(|mark| is_token(mark))
        };
        let thinking = THINKING.into_iter().find(known).filter(|_| format != Some(Format::Harmony));
        Self { format, thinking }
    }

    /// Where an answer to a prompt begins. `continued` is the text of the assistant's message that the prompt ends with, where it is to
    /// go on.
    pub fn start(&self, prompt: &str, continued: Option<&str>) -> Start {
        if self.format == Some(Format::Harmony) {
            let message = prompt.rsplit_once("<|start|>").map_or("", |(_, message)| message);
            return match message.contains("<|message|>") {
                true if message.contains("<|channel|>analysis") => Start::Thought,
                true => Start::Content,
                false => Start::Fresh,
            };
        }
        let Some(Thinking { open, close, .. }) = self.thinking else {
            return if continued.is_some_and(|text| !text.trim().is_empty()) { Start::Content } else { Start::Fresh };
        };
        let opened = match continued {
            Some(text) => match (text.rfind(open), text.rfind(close)) {
                (Some(open), close) => close.is_none_or(|close| close < open),
                (None, _) => false,
            },
            None => prompt.trim_end().ends_with(open.trim_end()),
        };
        match continued {
            _ if opened => Start::Thought,
            Some(text) if !text.trim().is_empty() => Start::Content,
            _ => Start::Fresh,
        }
    }

    /// Every mark that is read. Those that are control tokens have to be part of the text.
    pub fn marks(&self) -> Vec<&'static str> {
        let thinking = self.thinking.map_or([""; 2], |thinking| [thinking.open.trim_end(), thinking.close]);
        let inside: &[&str] = match self.format {
            None => &[],
            Some(Format::Harmony) => {
                &["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>"]
            }
            Some(Format::Hermes | Format::QwenXml | Format::Glm) => {
                &["</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]
            }
            Some(Format::Llama3) => &[],
            Some(Format::Pythonic) => &["<|tool_call_end|>", "<|python_end|>"],
            Some(Format::Mistral) => &["[ARGS]", "[CALL_ID]"],
            Some(Format::Gemma) => &["<end_function_call>", "<escape>", "<tool_call|>", "<|\"|>"],
            Some(Format::Kimi) => &[
                "<|tool_calls_section_end|>",
                "<|tool_call_begin|>",
                "<|tool_call_argument_begin|>",
                "<|tool_call_end|>",
            ],
            Some(Format::DeepSeek) => {
                &["<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"]
            }
            Some(Format::DeepSeekXml) => &["｜DSML｜"],
            Some(Format::Step) => {
                &["<｜tool_calls_end｜>", "<｜tool_call_begin｜>", "<｜tool_sep｜>", "<｜tool_call_end｜>"]
            }
            Some(Format::MiniMax) => &["</minimax:tool_call>"],
            Some(Format::MiniMaxM1) => &["</tool_calls>"],
        };
        let open = self.format.map_or(&[][..], openers).iter().map(|opener| opener.mark);
        thinking.into_iter().chain(open).chain(inside.iter().copied()).filter(|mark| !mark.is_empty()).collect()
    }
}

/// What begins a block of calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opener {
    pub(crate) mark: &'static str,
    /// What ends the block.
    pub(crate) end: Option<&'static str>,
    pub(crate) block: Block,
    /// Whether it counts inside a thought that was not closed: only where no text can spell it.
    pub(crate) thinking: bool,
}

/// How a block is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Block {
    ToolCall { named: bool },
    Function,
    Json,
    Python,
    Gemma(&'static gemma::Marks),
    Headed(Style),
    Tagged(&'static tagged::Tags),
}

const fn opener(mark: &'static str, end: Option<&'static str>, block: Block) -> Opener {
    Opener { mark, end, block, thinking: false }
}

const TOOL_CALL_END: Option<&str> = Some("</tool_call>");

/// The marks that begin blocks of a format.
pub(crate) fn openers(format: Format) -> &'static [Opener] {
    const HERMES: &[Opener] = &[opener("<tool_call>", TOOL_CALL_END, Block::ToolCall { named: false })];
    const QWEN: &[Opener] = &[
        opener("<tool_call>", TOOL_CALL_END, Block::ToolCall { named: false }),
        opener("<function=", TOOL_CALL_END, Block::Function),
    ];
    const GLM: &[Opener] = &[opener("<tool_call>", TOOL_CALL_END, Block::ToolCall { named: true })];
    const LLAMA: &[Opener] = &[opener("<|python_tag|>", None, Block::Json)];
    const PYTHON: &[Opener] = &[
        opener("<|tool_call_start|>", Some("<|tool_call_end|>"), Block::Python),
        opener("<|python_start|>", Some("<|python_end|>"), Block::Python),
    ];
    const MISTRAL: &[Opener] = &[opener("[TOOL_CALLS]", None, Block::Headed(Style::Mistral))];
    const GEMMA: &[Opener] = &[
        opener(gemma::FUNCTION_GEMMA.open, Some(gemma::FUNCTION_GEMMA.end), Block::Gemma(&gemma::FUNCTION_GEMMA)),
        opener(gemma::GEMMA_4.open, Some(gemma::GEMMA_4.end), Block::Gemma(&gemma::GEMMA_4)),
    ];
    const KIMI: &[Opener] = &[Opener {
        mark: "<|tool_calls_section_begin|>",
        end: Some("<|tool_calls_section_end|>"),
        block: Block::Headed(Style::Kimi),
        thinking: true,
    }];
    const DEEPSEEK: &[Opener] = &[Opener {
        mark: "<｜tool▁calls▁begin｜>",
        end: Some("<｜tool▁calls▁end｜>"),
        block: Block::Headed(Style::DeepSeek),
        thinking: true,
    }];
    const DSML: &[Opener] = &[
        opener("<｜DSML｜function_calls>", Some(tagged::DSML.end), Block::Tagged(&tagged::DSML)),
        opener("<｜DSML｜tool_calls>", Some(tagged::DSML_CALLS.end), Block::Tagged(&tagged::DSML_CALLS)),
    ];
    const STEP: &[Opener] = &[opener("<｜tool_calls_begin｜>", Some(tagged::STEP.end), Block::Tagged(&tagged::STEP))];
    const MINIMAX: &[Opener] =
        &[opener("<minimax:tool_call>", Some(tagged::MINIMAX.end), Block::Tagged(&tagged::MINIMAX))];
    const MINIMAX_M1: &[Opener] = &[opener("<tool_calls>", Some("</tool_calls>"), Block::Json)];
    match format {
        Format::Hermes => HERMES,
        Format::QwenXml => QWEN,
        Format::Llama3 => LLAMA,
        Format::Pythonic => PYTHON,
        Format::Mistral => MISTRAL,
        Format::Gemma => GEMMA,
        Format::Glm => GLM,
        Format::Kimi => KIMI,
        Format::DeepSeek => DEEPSEEK,
        Format::DeepSeekXml => DSML,
        Format::Harmony => &[],
        Format::Step => STEP,
        Format::MiniMax => MINIMAX,
        Format::MiniMaxM1 => MINIMAX_M1,
    }
}

/// What begins a call without a mark, at an answer's start.
pub(crate) fn bare(format: Format, c: char, tools: &[Tool]) -> Option<Machine> {
    match (format, c) {
        (Format::Llama3, '{') => Some(Machine::Json(Json::new(Around { end: None, bare: true }, tools))),
        (Format::Pythonic, '[') => Some(Machine::Python(Python::bare(tools))),
        _ => None,
    }
}

impl Opener {
    /// What reads the block behind it.
    pub(crate) fn machine(&self, tools: &[Tool]) -> Machine {
        let json = || Json::new(Around { end: self.end, bare: false }, tools);
        match self.block {
            Block::ToolCall { named } => Machine::Fork(Box::new(Fork {
                json: Some(json()),
                tagged: Some(Tagged::new(&tagged::QWEN, tools)),
                named: named.then(|| Tagged::new(&tagged::GLM, tools)),
            })),
            Block::Function => Machine::Tagged(Tagged::at_name(&tagged::QWEN, tools)),
            Block::Json => Machine::Json(json()),
            Block::Python => Machine::Python(Python::marked(self.end.unwrap_or_default())),
            Block::Gemma(marks) => Machine::Gemma(Gemma::new(marks)),
            Block::Headed(style) => Machine::Headed(Headed::new(style, tools)),
            Block::Tagged(tags) => Machine::Tagged(Tagged::new(tags, tools)),
        }
    }
}
