//! How a model's tokens are drawn where a request does not say, and who said so, for the log.

use std::fmt;

use omlx_http::{Settings, built_in};
use omlx_text::SamplingDefaults;

/// The values in force for one model.
pub(super) struct Drawing<'a> {
    pub(super) owner: &'a Settings,
    pub(super) author: &'a SamplingDefaults,
}

impl fmt::Display for Drawing<'_> {
    /// `temperature 0.7 (--temperature), top_k 20 (model), top_p 1 (built in)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, author, built_in) = (self.owner, Settings::of_author(self.author), built_in());
        let count = |s: &Settings| s.top_k.map(|n| n as f32);
        let values = [
            ("temperature", owner.temperature, author.temperature, built_in.temperature),
            ("top_k", count(owner), count(&author), built_in.top_k as f32),
            ("top_p", owner.top_p, author.top_p, built_in.top_p),
            ("min_p", owner.min_p, author.min_p, built_in.min_p),
            ("repetition_penalty", owner.repetition_penalty, author.repetition_penalty, built_in.repetition_penalty),
        ];
        for (i, (name, owner, author, built_in)) in values.into_iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            match (owner, author) {
                (Some(value), _) => write!(f, "{comma}{name} {value} (--{})", name.replace('_', "-"))?,
                (None, Some(value)) => write!(f, "{comma}{name} {value} (model)")?,
                (None, None) => write!(f, "{comma}{name} {built_in} (built in)")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Each value with its source.

    use super::*;

    #[test]
    fn the_owner_wins_then_the_author() {
        let owner = Settings { top_p: Some(0.9), repetition_penalty: Some(1.1), ..Settings::default() };
        let author =
            SamplingDefaults { temperature: Some(0.7), top_k: Some(20), top_p: Some(0.8), ..Default::default() };
        assert_eq!(
            Drawing { owner: &owner, author: &author }.to_string(),
            "temperature 0.7 (model), top_k 20 (model), top_p 0.9 (--top-p), min_p 0 (built in), \
             repetition_penalty 1.1 (--repetition-penalty)"
        );
        let greedy = SamplingDefaults { do_sample: Some(false), temperature: Some(0.7), ..Default::default() };
        let said = Drawing { owner: &Settings::default(), author: &greedy }.to_string();
        assert!(said.starts_with("temperature 0 (model), top_k 0 (built in), top_p 1 (built in)"), "{said}");
    }
}
