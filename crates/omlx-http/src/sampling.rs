//! Whose sampling value wins: the request's, then the owner's for this model, then the model author's, then the owner's for all
//! models, then the built-in one. What is said of one model goes before what is said of all.
//!
//! An explicit 0 counts as given, `null` does not. The built-in temperature is 1, as in OpenAI's API; a model author's
//! `do_sample: false` means temperature 0 and stands where their temperature would.

use std::fmt;

use omlx_api::Sampling;
use omlx_markup::{Format, Markup, Thinking};
use omlx_text::{SamplingDefaults, TextModel};

mod given;
mod parameter;

pub use given::Unsettable;
pub use parameter::{OutOfRange, Parameter};

/// Sampling values that somebody gave; `None` leaves the choice to the next in line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// 0 keeps all tokens.
    pub top_k: Option<usize>,
    /// 1 keeps all tokens.
    pub top_p: Option<f32>,
    /// 0 keeps all tokens.
    pub min_p: Option<f32>,
    /// 1 is built_in.
    pub repetition_penalty: Option<f32>,
    /// 0 is built_in.
    pub presence_penalty: Option<f32>,
    /// 0 is built_in.
    pub frequency_penalty: Option<f32>,
    /// Most new tokens.
    pub max_tokens: Option<usize>,
    /// How the model writes its calls, whatever its template says; `Some(None)`: it makes none.
    pub tool_format: Option<Option<Format>>,
    /// What it puts around its thoughts; `Some(None)`: nothing.
    pub thinking: Option<Option<Thinking>>,
}

/// What a server's owner set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Owner {
    /// For one model: wins over its author.
    pub model: Settings,
    /// For all models: holds where an author says nothing.
    pub all: Settings,
}

impl Settings {
    /// What a model's author recommends.
    pub fn of_author(author: &SamplingDefaults) -> Self {
        Self {
            temperature: if author.do_sample == Some(false) { Some(0.0) } else { author.temperature },
            top_k: author.top_k,
            top_p: author.top_p,
            min_p: author.min_p,
            repetition_penalty: author.repetition_penalty,
            max_tokens: author.max_new_tokens,
            ..Self::default()
        }
    }

    /// What a model writes besides content: as its template has it, unless its owner says otherwise.
    pub fn markup(&self, text: &TextModel) -> Markup {
        let said = Markup::of_template(&text.template_text(), |token| text.token_id(token).is_some());
        Markup { format: self.tool_format.unwrap_or(said.format), thinking: self.thinking.unwrap_or(said.thinking) }
    }

    /// These, and where they leave a choice, what `next` says.
    #[must_use]
    pub fn or(self, next: &Self) -> Self {
        Self {
            temperature: self.temperature.or(next.temperature),
            top_k: self.top_k.or(next.top_k),
            top_p: self.top_p.or(next.top_p),
            min_p: self.min_p.or(next.min_p),
            repetition_penalty: self.repetition_penalty.or(next.repetition_penalty),
            presence_penalty: self.presence_penalty.or(next.presence_penalty),
            frequency_penalty: self.frequency_penalty.or(next.frequency_penalty),
            max_tokens: self.max_tokens.or(next.max_tokens),
            tool_format: self.tool_format.or(next.tool_format),
            thinking: self.thinking.or(next.thinking),
        }
    }
}

impl fmt::Display for Settings {
    /// The values given, by the names that requests use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let float = |value: Option<f32>| value.map(|v| v.to_string());
        let count = |value: Option<usize>| value.map(|v| v.to_string());
        let all = [
            ("temperature", float(self.temperature)),
            ("top_k", count(self.top_k)),
            ("top_p", float(self.top_p)),
            ("min_p", float(self.min_p)),
            ("repetition_penalty", float(self.repetition_penalty)),
            ("presence_penalty", float(self.presence_penalty)),
            ("frequency_penalty", float(self.frequency_penalty)),
            ("max_tokens", count(self.max_tokens)),
            ("tool_format", self.tool_format.map(|format| word(format.as_ref()))),
            ("thinking", self.thinking.map(|thinking| word(thinking.as_ref()))),
        ];
        let given: Vec<String> =
            all.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name} {value}"))).collect();
        f.write_str(if given.is_empty() { "nothing set" } else { "" })?;
        f.write_str(&given.join(", "))
    }
}

/// A format's name, or that there is none.
fn word(format: Option<&impl ToString>) -> String {
    format.map_or_else(|| "none".to_owned(), ToString::to_string)
}

/// What holds where nobody says.
pub fn built_in() -> Sampling {
    Sampling { temperature: 1.0, ..Sampling::default() }
}

/// The values in force, and the most new tokens if anybody said. Bias and seed are the request's own and stay unset.
pub(crate) fn resolve(request: &Settings, owner: &Owner, author: &SamplingDefaults) -> (Sampling, Option<usize>) {
    let said = request.or(&owner.model).or(&Settings::of_author(author)).or(&owner.all);
    let built_in = built_in();
    let sampling = Sampling {
        temperature: said.temperature.unwrap_or(built_in.temperature),
        top_k: said.top_k.unwrap_or(built_in.top_k),
        top_p: said.top_p.unwrap_or(built_in.top_p),
        min_p: said.min_p.unwrap_or(built_in.min_p),
        repetition_penalty: said.repetition_penalty.unwrap_or(built_in.repetition_penalty),
        presence_penalty: said.presence_penalty.unwrap_or(built_in.presence_penalty),
        frequency_penalty: said.frequency_penalty.unwrap_or(built_in.frequency_penalty),
        ..built_in
    };
    (sampling, said.max_tokens)
}

#[cfg(test)]
mod tests;
