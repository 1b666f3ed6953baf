//! The parameters that both routes share, checked: after this nothing is out of range and nothing asks again.

use std::collections::BTreeMap;
use std::fmt::Display;

use omlx_api::Priority;

use super::wire::{Common, OneOrMore, Seed};
use crate::error::Error;
use crate::sampling::Settings;

/// Most answers to one prompt.
const MOST_N: u64 = 16;
/// Most stop strings, as in OpenAI's API.
const MOST_STOPS: usize = 4;
/// Most tokens with a bias: each costs time at every draw.
const MOST_BIASES: usize = 1024;
/// Most alternatives per token, as in OpenAI's chat API.
pub(super) const MOST_LOGPROBS: u64 = 20;

/// What a request asks for, apart from its prompt.
#[derive(Debug)]
pub(super) struct Ask {
    /// As the client wrote it, and as the answer repeats it.
    pub(super) model: String,
    pub(super) stream: bool,
    /// Whether a stream ends with its usage.
    pub(super) usage: bool,
    /// Answers per prompt.
    pub(super) n: usize,
    pub(super) stops: Vec<String>,
    pub(super) settings: Settings,
    pub(super) logit_bias: Vec<(u32, f32)>,
    pub(super) seed: Option<u64>,
    pub(super) ignore_eos: bool,
    pub(super) priority: Priority,
}

impl Ask {
    pub(super) fn check(common: Common) -> Result<Self, Error> {
        if common.response_format.is_some_and(|format| format.kind != "text") {
            return Err(Error::Unsupported {
                param: "response_format",
                way_out: "use {\"type\": \"text\"} or leave it out",
            });
        }
        let settings = Settings {
            temperature: number("temperature", common.temperature, 0.0, 2.0)?,
            top_p: above_zero("top_p", common.top_p, 1.0)?,
            min_p: number("min_p", common.min_p, 0.0, 1.0)?,
            repetition_penalty: above_zero("repetition_penalty", common.repetition_penalty, 10.0)?,
            presence_penalty: number("presence_penalty", common.presence_penalty, -2.0, 2.0)?,
            frequency_penalty: number("frequency_penalty", common.frequency_penalty, -2.0, 2.0)?,
            top_k: common.top_k.map(top_k).transpose()?,
            // The newer name wins. More than this machine can count is as good as no limit.
            max_tokens: common
                .max_completion_tokens
                .or(common.max_tokens)
                .map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        };
        Ok(Ask {
            model: common.model.filter(|model| !model.is_empty()).ok_or(Error::Missing("model"))?,
            stream: common.stream.unwrap_or(false),
            usage: common.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
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

fn number(param: &'static str, found: Option<f64>, least: f64, most: f64) -> Result<Option<f32>, Error> {
    match found {
        Some(found) if !(least..=most).contains(&found) => {
            Err(range(param, format!("between {least} and {most}"), found))
        }
        // f32: what the sampler computes in
        found => Ok(found.map(|found| found as f32)),
    }
}

fn above_zero(param: &'static str, found: Option<f64>, most: f64) -> Result<Option<f32>, Error> {
    // The smallest f32 above 0, not of f64: it has to be above 0 also where the sampler computes.
    match number(param, found, f64::from(f32::MIN_POSITIVE), most) {
        Err(_) => Err(range(param, format!("above 0 and at most {most}"), found.unwrap_or_default())),
        checked => checked,
    }
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
