//! The ranges of sampling values: one table for what a request sends and for what a server's owner sets.

use thiserror::Error;

/// A sampling value with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// 0 is greedy.
    Temperature,
    /// How much of the probability is kept.
    TopP,
    /// The smallest probability kept, as a share of the largest.
    MinP,
    /// Divisor for tokens already seen.
    RepetitionPenalty,
    /// Taken off once from tokens already seen.
    PresencePenalty,
    /// Taken off tokens already seen, each time.
    FrequencyPenalty,
}

/// A value that is not in its parameter's range, or no number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("has to be {expected}")]
pub struct OutOfRange {
    /// The parameter.
    pub parameter: Parameter,
    /// Its range in words.
    pub expected: String,
}

impl Parameter {
    /// The name that requests use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::MinP => "min_p",
            Self::RepetitionPenalty => "repetition_penalty",
            Self::PresencePenalty => "presence_penalty",
            Self::FrequencyPenalty => "frequency_penalty",
        }
    }

    /// Least and most. A least of `None` is above 0, also in f32, which the sampler computes in.
    fn range(self) -> (Option<f64>, f64) {
        match self {
            Self::Temperature => (Some(0.0), 2.0),
            Self::TopP => (None, 1.0),
            Self::MinP => (Some(0.0), 1.0),
            Self::RepetitionPenalty => (None, 10.0),
            Self::PresencePenalty | Self::FrequencyPenalty => (Some(-2.0), 2.0),
        }
    }

    /// The value as the sampler takes it.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn check(self, value: f64) -> Result<f32, OutOfRange> {
        let (least, most) = self.range();
        if (least.unwrap_or(f64::from(f32::MIN_POSITIVE))..=most).contains(&value) {
            return Ok(value as f32);
        }
        let expected = match least {
            Some(least) => format!("between {least} and {most}"),
            None => format!("above 0 and at most {most}"),
        };
        Err(OutOfRange { parameter: self, expected })
    }

    /// The value written as a text, as on a command line.
    ///
    /// # Errors
    /// When it is no number, or out of range.
    pub fn parse(self, text: &str) -> Result<f32, OutOfRange> {
        // what is no number is in no range
        self.check(text.trim().parse().unwrap_or(f64::NAN))
    }
}
