//! Amounts of memory as people write them.

use std::fmt;
use std::str::FromStr;

/// An amount of memory: fixed, or a share of what is free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Memory {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of what is free, above 0 and at most 100.
    Percent(f64),
}

impl Memory {
    /// The amount in bytes, given what is free.
    pub(crate) fn of(self, free_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (free_bytes as f64 * percent / 100.0) as u64,
        }
    }
}

/// Why a text is no amount of memory.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum NotMemory {
    /// No number, or an unknown unit.
    #[error("expected a size with a unit (512MB, 2GiB) or a share of free memory (25%)")]
    Form,
    /// A share outside its range.
    #[error("a share of memory lies above 0% and at most at 100%")]
    Share,
    /// Nothing, or more than can be counted.
    #[error("a size lies above 0 and below 16 EiB")]
    Size,
}

impl FromStr for Memory {
    type Err = NotMemory;

    fn from_str(text: &str) -> Result<Self, NotMemory> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(NotMemory::Form)?;
        let (number, unit) = text.split_at(split);
        let number: f64 = number.parse().map_err(|_| NotMemory::Form)?;
        let power = |base: u64, exponent: u32| base.pow(exponent) as f64;
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "%" if number > 0.0 && number <= 100.0 => return Ok(Self::Percent(number)),
            "%" => return Err(NotMemory::Share),
            "b" => 1.0,
            "kb" => power(1000, 1),
            "mb" => power(1000, 2),
            "gb" => power(1000, 3),
            "tb" => power(1000, 4),
            "kib" | "k" => power(1024, 1),
            "mib" | "m" => power(1024, 2),
            "gib" | "g" => power(1024, 3),
            "tib" | "t" => power(1024, 4),
            _ => return Err(NotMemory::Form),
        };
        let bytes = number * factor;
        if bytes >= 1.0 && bytes < u64::MAX as f64 { Ok(Self::Bytes(bytes as u64)) } else { Err(NotMemory::Size) }
    }
}

/// Some memory, or none at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OrOff(pub(crate) Option<Memory>);

impl FromStr for OrOff {
    type Err = NotMemory;

    fn from_str(text: &str) -> Result<Self, NotMemory> {
        match text.trim() {
            "0" | "off" => Ok(Self(None)),
            text => text.parse().map(Some).map(Self),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&readable(*bytes)),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Bytes with the largest unit that leaves at least 1, to one decimal.
pub(crate) fn readable(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (bytes.max(1).ilog2() / 10).min(4);
    match power {
        0 => format!("{bytes} B"),
        _ => format!("{:.1} {}", bytes as f64 / (1u64 << (10 * power)) as f64, units[power as usize]),
    }
}

#[cfg(test)]
mod tests;
