//! The parameters that both routes share, checked: after this nothing is out of range and nothing asks again.

use std::collections::BTreeMap;
use std::fmt::Display;

use omlx_api::Priority;

use super::refuse;
use super::wire::{Common, Object, OneOrMore, Seed};
use crate::body::Body;
use crate::error::{Blame, Error};
use crate::sampling::{Parameter, Settings};

/// Most answers to one prompt.
const MOST_N: u64 = 16;
/// Most stop strings, as in OpenAI's API.
const MOST_STOPS: usize = 4;
/// Bytes of one stop string: each answer keeps several times as much to look for it.
const MOST_STOP_BYTES: usize = 4096;
/// Most tokens with a bias: each costs time at every draw.
const MOST_BIASES: usize = 1024;
/// Most alternatives per token, as in OpenAI's chat API.
pub(super) const MOST_LOGPROBS: u64 = 20;

/// What a request asks for, apart from its prompt.
#[derive(Debug)]
pub(crate) struct Ask {
    /// As the client wrote it, and as the answer repeats it.
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Whether a stream ends with its usage.
    pub(crate) usage: bool,
    /// Answers per prompt.
    pub(crate) n: usize,
    pub(crate) stops: Vec<String>,
    pub(crate) settings: Settings,
    pub(crate) logit_bias: Vec<(u32, f32)>,
    pub(crate) seed: Option<u64>,
    pub(crate) ignore_eos: bool,
    pub(crate) priority: Priority,
}

impl Ask {
    /// The shared part of a request's body.
    pub(super) fn check(body: &Body) -> Result<Self, Error> {
        let common: Common = body.read()?;
        refuse::both(body.value(), &common)?;
        let settings = Settings {
            temperature: number(Parameter::Temperature, common.temperature)?,
            top_p: number(Parameter::TopP, common.top_p)?,
            min_p: number(Parameter::MinP, common.min_p)?,
            repetition_penalty: number(Parameter::RepetitionPenalty, common.repetition_penalty)?,
            presence_penalty: number(Parameter::PresencePenalty, common.presence_penalty)?,
            frequency_penalty: number(Parameter::FrequencyPenalty, common.frequency_penalty)?,
            top_k: common.top_k.map(top_k).transpose()?,
            // The newer name wins. More than this machine can count is as good as no limit.
            max_tokens: common
                .max_completion_tokens
                .or(common.max_tokens)
                .map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            ..Settings::default()
        };
        Ok(Ask {
            model: common.model.filter(|model| !model.is_empty()).ok_or(Error::Missing("model".into()))?,
            stream: common.stream.unwrap_or(false),
            usage: common.stream_options.and_then(|Object(options)| options.include_usage).unwrap_or(false),
            n: count("n", common.n.unwrap_or(1), 1, MOST_N)?,
            stops: stops(common.stop)?,
            settings,
            logit_bias: logit_bias(common.logit_bias.unwrap_or_default())?,
            seed: common.seed.map(|seed| match seed {
                Seed::Unsigned(seed) => seed,
                Seed::Signed(seed) => seed.cast_unsigned(),
            }),
            ignore_eos: common.ignore_eos.unwrap_or(false),
            priority: priority(common.service_tier.as_deref(), common.priority.unwrap_or(0)),
        })
    }
}

impl Ask {
    /// One answer, with nothing said but this.
    pub(crate) fn one(model: String, settings: Settings, stops: Vec<String>, priority: Priority) -> Self {
        Ask {
            model,
            stream: false,
            usage: false,
            n: 1,
            stops,
            settings,
            logit_bias: Vec::new(),
            seed: None,
            ignore_eos: false,
            priority,
        }
    }

    /// How tokens are drawn, where a request may say no more than this.
    pub(crate) fn drawing(temperature: Option<f64>, top_p: Option<f64>, k: Option<i64>) -> Result<Settings, Error> {
        Ok(Settings {
            temperature: number(Parameter::Temperature, temperature)?,
            top_p: number(Parameter::TopP, top_p)?,
            top_k: k.map(top_k).transpose()?,
            ..Settings::default()
        })
    }

    /// What an engine's refusal of this request is about; `prompt` is the parameter that holds the prompt.
    pub(crate) fn blame(&self, prompt: &'static str) -> Blame {
        Blame { prompt, biased: self.logit_bias.iter().map(|(id, _)| *id).collect() }
    }
}

/// Batch work, if either says so: OpenAI's `service_tier: "flex"` (slower for less) and `"batch"`, or vLLM's `priority`, where 0 is
/// usual and more is later. Other tiers are decoration here.
fn priority(tier: Option<&str>, priority: i64) -> Priority {
    match tier {
        Some("flex" | "batch") => Priority::Batch,
        _ if priority > 0 => Priority::Batch,
        _ => Priority::Interactive,
    }
}

/// A whole number between two bounds, both allowed.
pub(super) fn count(param: &'static str, found: u64, least: u64, most: u64) -> Result<usize, Error> {
    match usize::try_from(found) {
        Ok(count) if (least..=most).contains(&found) => Ok(count),
        _ => Err(range(param, format!("between {least} and {most}"), found)),
    }
}

fn number(parameter: Parameter, found: Option<f64>) -> Result<Option<f32>, Error> {
    let check = |found| parameter.check(found).map_err(|fault| range(parameter.name(), fault.expected, found));
    found.map(check).transpose()
}

/// -1 and 0 both mean "all tokens".
fn top_k(found: i64) -> Result<usize, Error> {
    match found {
        -1 => Ok(0),
        found => usize::try_from(found).map_err(|_| range("top_k", "-1, 0 or a number of tokens".to_owned(), found)),
    }
}

fn stops(stop: Option<OneOrMore>) -> Result<Vec<String>, Error> {
    let stops = match stop {
        None => Vec::new(),
        Some(OneOrMore::One(stop)) => vec![stop],
        Some(OneOrMore::More(stops)) => stops,
    };
    if stops.len() > MOST_STOPS {
        return Err(range("stop", format!("at most {MOST_STOPS} strings"), stops.len()));
    }
    if stops.iter().any(String::is_empty) {
        return Err(range("stop", "strings of at least one character".to_owned(), "an empty one"));
    }
    if let Some(long) = stops.iter().find(|stop| stop.len() > MOST_STOP_BYTES) {
        return Err(range(
            "stop",
            format!("strings of at most {MOST_STOP_BYTES} bytes"),
            format!("one of {}", long.len()),
        ));
    }
    Ok(stops)
}

fn logit_bias(biases: BTreeMap<String, f64>) -> Result<Vec<(u32, f32)>, Error> {
    if biases.len() > MOST_BIASES {
        return Err(range("logit_bias", format!("at most {MOST_BIASES} tokens"), biases.len()));
    }
    let bias = |(id, bias): (String, f64)| match (id.parse::<u32>(), bias) {
        (Err(_), _) => {
            Err(range("logit_bias", "an object with token ids as keys".to_owned(), format!("the key {id:?}")))
        }
        (Ok(id), bias) if (-100.0..=100.0).contains(&bias) => Ok((id, bias as f32)),
        (Ok(id), bias) => Err(Error::Range {
            param: format!("logit_bias.{id}"),
            expected: "between -100 and 100".to_owned(),
            found: bias.to_string(),
        }),
    };
    biases.into_iter().map(bias).collect()
}

fn range(param: &'static str, expected: String, found: impl Display) -> Error {
    Error::Range { param: param.to_owned(), expected, found: found.to_string() }
}
