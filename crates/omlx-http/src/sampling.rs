//! Whose sampling value wins: the request's, then the server owner's, then the model author's, then the built-in one.
//!
//! An explicit 0 counts as given, `null` does not. The built-in temperature is 1, as in OpenAI's API; a model author's
//! `do_sample: false` means temperature 0 and stands where their temperature would.

use std::fmt;

use omlx_api::Sampling;
use omlx_text::SamplingDefaults;

mod parameter;

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
    /// 1 is off.
    pub repetition_penalty: Option<f32>,
    /// 0 is off.
    pub presence_penalty: Option<f32>,
    /// 0 is off.
    pub frequency_penalty: Option<f32>,
    /// Most new tokens.
    pub max_tokens: Option<usize>,
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
        ];
        let given: Vec<String> =
            all.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name} {value}"))).collect();
        f.write_str(if given.is_empty() { "nothing set" } else { "" })?;
        f.write_str(&given.join(", "))
    }
}

/// The values in force, and the most new tokens if anybody said. Bias and seed are the request's own and stay unset.
pub(crate) fn resolve(request: &Settings, owner: &Settings, author: &SamplingDefaults) -> (Sampling, Option<usize>) {
    let author_temperature = if author.do_sample == Some(false) { Some(0.0) } else { author.temperature };
    let sampling = Sampling {
        temperature: request.temperature.or(owner.temperature).or(author_temperature).unwrap_or(1.0),
        top_k: request.top_k.or(owner.top_k).or(author.top_k).unwrap_or(0),
        top_p: request.top_p.or(owner.top_p).or(author.top_p).unwrap_or(1.0),
        min_p: request.min_p.or(owner.min_p).or(author.min_p).unwrap_or(0.0),
        repetition_penalty: request
            .repetition_penalty
            .or(owner.repetition_penalty)
            .or(author.repetition_penalty)
            .unwrap_or(1.0),
        presence_penalty: request.presence_penalty.or(owner.presence_penalty).unwrap_or(0.0),
        frequency_penalty: request.frequency_penalty.or(owner.frequency_penalty).unwrap_or(0.0),
        ..Sampling::default()
    };
    (sampling, request.max_tokens.or(owner.max_tokens).or(author.max_new_tokens))
}

#[cfg(test)]
mod tests;
