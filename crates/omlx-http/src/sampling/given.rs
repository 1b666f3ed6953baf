//! Settings written as a text: `temperature=0.2,max_tokens=16`, with the names that requests use.

use std::str::FromStr;

use omlx_markup::UnknownName;
use thiserror::Error;

use super::{OutOfRange, Parameter, Settings};

/// A text that is no list of settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unsettable {
    /// A part without a value.
    #[error("`{part}` is not NAME=VALUE; the names are {NAMES}")]
    Part {
        /// The part.
        part: String,
    },
    /// A name that is no setting.
    #[error("`{name}` is no setting; there are {NAMES}")]
    Name {
        /// The name.
        name: String,
    },
    /// A value that is out of range.
    #[error("{} {fault}, found `{value}`", fault.parameter.name())]
    Value {
        /// The range.
        fault: OutOfRange,
        /// The value.
        value: String,
    },
    /// A format that nobody knows.
    #[error("{0}, none")]
    Format(UnknownName),
    /// A count that is no whole number.
    #[error("{name} has to be a whole number of {least} or more, found `{value}`")]
    Count {
        /// The setting.
        name: String,
        /// The smallest that it can be.
        least: usize,
        /// The value.
        value: String,
    },
}

const NAMES: &str = "temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty, max_tokens, \
                     tool_format, thinking";

impl FromStr for Settings {
    type Err = Unsettable;

    /// Several are separated by commas; of two with one name the later counts. `-` is as good as `_`.
    fn from_str(text: &str) -> Result<Self, Unsettable> {
        text.split(',').try_fold(Self::default(), |settings, part| {
            let (name, value) =
                part.split_once('=').ok_or_else(|| Unsettable::Part { part: part.trim().to_owned() })?;
            settings.with(name.trim(), value.trim())
        })
    }
}

impl Settings {
    fn with(mut self, name: &str, value: &str) -> Result<Self, Unsettable> {
        let float = |parameter: Parameter| match parameter.parse(value) {
            Ok(value) => Ok(Some(value)),
            Err(fault) => Err(Unsettable::Value { fault, value: value.to_owned() }),
        };
        let count = |least| match value.parse() {
            Ok(count) if count >= least => Ok(Some(count)),
            _ => Err(Unsettable::Count { name: name.to_owned(), least, value: value.to_owned() }),
        };
        match name.replace('-', "_").as_str() {
            "temperature" => self.temperature = float(Parameter::Temperature)?,
            "top_p" => self.top_p = float(Parameter::TopP)?,
            "min_p" => self.min_p = float(Parameter::MinP)?,
            "repetition_penalty" => self.repetition_penalty = float(Parameter::RepetitionPenalty)?,
            "presence_penalty" => self.presence_penalty = float(Parameter::PresencePenalty)?,
            "frequency_penalty" => self.frequency_penalty = float(Parameter::FrequencyPenalty)?,
            "top_k" => self.top_k = count(0)?,
            "max_tokens" => self.max_tokens = count(1)?,
            "tool_format" => self.tool_format = Some(named(value)?),
            "thinking" => self.thinking = Some(named(value)?),
            _ => return Err(Unsettable::Name { name: name.to_owned() }),
        }
        Ok(self)
    }
}

/// A format by its name, or none.
fn named<T: FromStr<Err = UnknownName>>(value: &str) -> Result<Option<T>, Unsettable> {
    match value {
        "none" => Ok(None),
        value => value.parse().map(Some).map_err(Unsettable::Format),
    }
}

#[cfg(test)]
mod tests {
    //! What may be written, and what not.

    use super::*;

    #[test]
    fn written_settings() {
        let text = "temperature=0, top-k=5,max_tokens=16,presence_penalty=-1,top_k=6,tool-format=Hermes,thinking=none";
        let settings: Settings = text.parse().unwrap();
        let expected = Settings {
            temperature: Some(0.0),
            top_k: Some(6),
            presence_penalty: Some(-1.0),
            tool_format: Some(Some(omlx_markup::Format::Hermes)),
            thinking: Some(None),
            max_tokens: Some(16),
            ..Settings::default()
        };
        assert_eq!(settings, expected);
        assert_eq!(settings.to_string().replace(' ', "=").replace(",=", ",").parse(), Ok(settings), "as it is shown");
        for (text, said) in [
            ("", "`` is not NAME=VALUE"),
            ("temperature", "`temperature` is not NAME=VALUE"),
            ("temp=1", "`temp` is no setting; there are temperature, top_k"),
            ("temperature=3", "temperature has to be between 0 and 2, found `3`"),
            ("top_k=-1", "top_k has to be a whole number of 0 or more, found `-1`"),
            ("max_tokens=0", "max_tokens has to be a whole number of 1 or more, found `0`"),
            ("max_tokens=1,", "`` is not NAME=VALUE"),
            ("tool_format=quen", "`quen` is no tool format; there are harmony, kimi_k2"),
        ] {
            let error = text.parse::<Settings>().unwrap_err().to_string();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }
}
