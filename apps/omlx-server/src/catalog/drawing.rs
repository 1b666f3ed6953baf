//! How a model's tokens are drawn where a request does not say, and who said so, for the log.

use std::fmt;

use omlx_http::{Owner, Settings, built_in};
use omlx_text::SamplingDefaults;

/// The values in force for one model.
pub(super) struct Drawing<'a> {
    pub(super) owner: &'a Owner,
    pub(super) author: &'a SamplingDefaults,
}

impl fmt::Display for Drawing<'_> {
    /// `temperature 0.7 (--set), top_k 20 (model), top_p 0.9 (--top-p), min_p 0 (built in)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Owner { model, all }, built_in) = (self.owner, built_in());
        let author = Settings::of_author(self.author);
        // Written out at once: a count that passes through a float is another one from 2^24 on.
        type Value = fn(&Settings) -> Option<String>;
        let text = |value: f32| Some(value.to_string());
        let values: [(&str, Value, Option<String>); 8] = [
            ("temperature", |s| s.temperature.as_ref().map(f32::to_string), text(built_in.temperature)),
            ("top_k", |s| s.top_k.as_ref().map(usize::to_string), Some(built_in.top_k.to_string())),
            ("top_p", |s| s.top_p.as_ref().map(f32::to_string), text(built_in.top_p)),
            ("min_p", |s| s.min_p.as_ref().map(f32::to_string), text(built_in.min_p)),
            (
                "repetition_penalty",
                |s| s.repetition_penalty.as_ref().map(f32::to_string),
                text(built_in.repetition_penalty),
            ),
            // shown where somebody set them
            ("presence_penalty", |s| s.presence_penalty.as_ref().map(f32::to_string), None),
            ("frequency_penalty", |s| s.frequency_penalty.as_ref().map(f32::to_string), None),
            ("max_tokens", |s| s.max_tokens.as_ref().map(usize::to_string), None),
        ];
        for (i, (name, value, built_in)) in values.into_iter().enumerate() {
            let flag = format!("--{}", name.replace('_', "-"));
            let sources = [
                (value(model), "--set"),
                (value(&author), "model"),
                (value(all), flag.as_str()),
                (built_in, "built in"),
            ];
            if let Some((value, source)) = sources.into_iter().find_map(|(value, source)| Some((value?, source))) {
                write!(f, "{}{name} {value} ({source})", if i == 0 { "" } else { ", " })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Each value with its source.

    use super::*;

    /// Each value with its source. Seen to fail: a count that passed through a float on its way.
    #[test]
    fn what_is_said_of_the_model_wins() {
        let all =
            Settings { top_p: Some(0.9), repetition_penalty: Some(1.1), max_tokens: Some(8), ..Settings::default() };
        let model = Settings { top_k: Some(5), max_tokens: Some(4_294_967_295), ..Settings::default() };
        let author =
            SamplingDefaults { temperature: Some(0.7), top_k: Some(20), top_p: Some(0.8), ..Default::default() };
        assert_eq!(
            Drawing { owner: &Owner { model, all }, author: &author }.to_string(),
            "temperature 0.7 (model), top_k 5 (--set), top_p 0.8 (model), min_p 0 (built in), \
             repetition_penalty 1.1 (--repetition-penalty), max_tokens 4294967295 (--set)"
        );
        let greedy = SamplingDefaults { do_sample: Some(false), temperature: Some(0.7), ..Default::default() };
        let said = Drawing { owner: &Owner::default(), author: &greedy }.to_string();
        assert!(said.starts_with("temperature 0 (model), top_k 0 (built in), top_p 1 (built in)"), "{said}");
    }
}
