//! How a model's tokens are drawn where a request does not say, and who said so, for the log.

use std::fmt;

use omlx_http::Settings;
use omlx_text::SamplingDefaults;

/// The values in force for one model.
pub(super) struct Drawing<'a> {
    pub(super) owner: &'a Settings,
    pub(super) author: &'a SamplingDefaults,
}

impl fmt::Display for Drawing<'_> {
    /// `temperature 0.7 (--temperature), top_k 20 (model), top_p 1 (built in)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (o, a) = (self.owner, self.author);
        let count = |n: Option<usize>| n.map(|n| n as f32);
        // An author's greedy stands where their temperature would.
        let temperature = if a.do_sample == Some(false) { Some(0.0) } else { a.temperature };
        let values = [
            ("temperature", o.temperature, temperature, 1.0),
            ("top_k", count(o.top_k), count(a.top_k), 0.0),
            ("top_p", o.top_p, a.top_p, 1.0),
            ("min_p", o.min_p, a.min_p, 0.0),
            ("repetition_penalty", o.repetition_penalty, a.repetition_penalty, 1.0),
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
