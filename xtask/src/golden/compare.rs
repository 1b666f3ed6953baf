//! A reference beside one made now: the same, the same but for the last digits, or another.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::shell::{Done, Failed};

/// Largest difference that counts as one of processors, relative to the largest number of the same list: two units of the sixth
/// digit, which is the last that is written.
const DIGITS: f64 = 2e-5;
/// What has other digits: margins are written with four, and differences of logits besides; a sum over the whole vocabulary
/// adds up its errors. Name, largest relative difference, and the number below which that is no longer relative.
const COARSE: [(&str, f64, f64); 2] = [("greedy_margins", 1e-3, 0.2), ("sum", 1e-3, 1e3)];
/// A measure of rounding itself, which has no digits to agree on; it must only stay small.
const NOISE: (&str, f64) = ("prefill_cache_vs_nocache_max_abs", 1e-3);
/// Versions, compared without what stands behind the `+`: how a package was built.
const VERSIONS: [&str; 2] = ["torch", "transformers"];
/// The most differences that are shown of one file.
const SHOWN: usize = 3;

/// How two files differ.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Not at all.
    Same,
    /// By so much at most, relatively.
    Digits(f64),
    /// In more; the first places of all.
    Differs(Vec<String>),
    /// There was none here.
    New,
}

impl Verdict {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Digits(_) => "digits",
            Self::Differs(_) => "DIFFERS",
            Self::New => "NEW",
        }
    }

    pub(super) fn detail(&self) -> String {
        match self {
            Self::Same | Self::New => String::new(),
            Self::Digits(most) => format!(" (by {most:.0e})"),
            Self::Differs(places) => places.iter().take(SHOWN).fold(String::new(), |mut text, place| {
                // writing to a text cannot fail
                let _ = write!(text, "\n          {place}");
                text
            }),
        }
    }
}

/// Compares what is here with what was made.
pub(super) fn files(here: &Path, made: &Path) -> Done<Verdict> {
    if !here.exists() {
        return Ok(Verdict::New);
    }
    let read = |path: &Path| fs::read(path).map_err(Failed::at(path));
    let (old, new) = (read(here)?, read(made)?);
    if old == new {
        return Ok(Verdict::Same);
    }
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    Ok(match (json(&old), json(&new)) {
        (Some(old), Some(new)) => values(&old, &new),
        _ => Verdict::Differs(vec![format!("{} bytes, were {}", new.len(), old.len())]),
    })
}

/// Compares two JSON values; a difference in spelling alone is none.
pub(super) fn values(old: &Value, new: &Value) -> Verdict {
    let mut walk = Walk::default();
    walk.values("", old, new, FINE);
    if !walk.places.is_empty() {
        return Verdict::Differs(walk.places);
    }
    if walk.most == 0.0 { Verdict::Same } else { Verdict::Digits(walk.most) }
}

/// How large a difference may be.
#[derive(Clone, Copy)]
struct Scale {
    /// Relative to the larger number, or to the largest of its list.
    relative: f64,
    /// Smaller numbers count as this one.
    least: f64,
    /// Whether a list's largest number is the measure for all of it.
    by_list: bool,
}

const FINE: Scale = Scale { relative: DIGITS, least: 1.0, by_list: true };

#[derive(Default)]
struct Walk {
    /// The largest difference that was let pass.
    most: f64,
    places: Vec<String>,
}

impl Walk {
    fn values(&mut self, path: &str, old: &Value, new: &Value, scale: Scale) {
        match (old, new) {
            (Value::Object(a), Value::Object(b)) => {
                for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                    let null = Value::Null;
                    let (a, b) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                    self.member(&format!("{path}.{key}"), key, a, b);
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                let largest = a.iter().chain(b).filter_map(Value::as_f64).fold(scale.least, |m: f64, v| m.max(v.abs()));
                let scale = if scale.by_list { Scale { least: largest, ..scale } } else { scale };
                for (i, (a, b)) in a.iter().zip(b).enumerate() {
                    self.values(&format!("{path}[{i}]"), a, b, scale);
                }
            }
            // ids are whole numbers, and of them no digit is the last
            (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
                let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
                let apart = (a - b).abs() / scale.least.max(a.abs()).max(b.abs());
                // NaN is no small difference
                if apart <= scale.relative { self.most = self.most.max(apart) } else { self.note(path, old, new) }
            }
            _ if old == new => {}
            _ => self.note(path, old, new),
        }
    }

    fn member(&mut self, path: &str, key: &str, old: &Value, new: &Value) {
        let version = |v: &Value| v.as_str().and_then(|v| v.split('+').next()).map(str::to_owned);
        if VERSIONS.contains(&key) && version(old).is_some() && version(old) == version(new) {
            return;
        }
        if key == NOISE.0 && [old, new].iter().all(|v| v.as_f64().is_some_and(|v| v < NOISE.1)) {
            return;
        }
        let coarse = COARSE.iter().find(|(name, ..)| *name == key);
        let scale = coarse.map_or(FINE, |&(_, relative, least)| Scale { relative, least, by_list: false });
        self.values(path, old, new, scale);
    }

    fn note(&mut self, path: &str, old: &Value, new: &Value) {
        let short = |v: &Value| {
            let text = v.to_string();
            let end = text.char_indices().nth(60).map_or(text.len(), |(at, _)| at);
            if end < text.len() { format!("{}...", &text[..end]) } else { text }
        };
        self.places.push(format!("{}: {}, was {}", path.trim_start_matches('.'), short(new), short(old)));
    }
}
