//! What a user says about the cache's bits, and what it means for a model's groups.

use std::fmt;
use std::str::FromStr;

use omlx_blocks::Reach;
use omlx_ops::Rotation;

use super::{Turbo, Width};
use crate::{Codec, Error, KvGroup, KvLayout};

/// Bits per number of keys and of values, as they are written: `off`, `8`, `6`, `4`, `3.5`, `3`, `2.5`, `2`, or `k=4,v=3`.
///
/// A width and a half gives keys the bit more: an error in a key moves a token's weight, one in a value only what is added. So `3.5` is
/// `k=4,v=3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum KvBits {
    /// Keys and values stay plain.
    #[default]
    Off,
    /// They are coded.
    Turbo {
        /// Bits of keys.
        keys: Width,
        /// Bits of values.
        values: Width,
    },
}

impl FromStr for KvBits {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |what: &str| Error::Bits { text: text.into(), what: what.into() };
        let width = |bits: &str| match bits.trim() {
            "2" => Ok(Width::Two),
            "3" => Ok(Width::Three),
            "4" => Ok(Width::Four),
            "6" => Ok(Width::Six),
            "8" => Ok(Width::Eight),
            other => Err(refused(other)),
        };
        let pair = |keys, values| Ok(Self::Turbo { keys, values });
        match text.trim() {
            "off" => return Ok(Self::Off),
            "3.5" => return pair(Width::Four, Width::Three),
            "2.5" => return pair(Width::Three, Width::Two),
            one if !one.contains('=') => return pair(width(one)?, width(one)?),
            _ => {}
        }
        let (mut keys, mut values) = (None, None);
        for part in text.split(',') {
            let place = match part.split_once('=').map(|(name, bits)| (name.trim(), bits)) {
                Some(("k", bits)) => (&mut keys, bits),
                Some(("v", bits)) => (&mut values, bits),
                _ => return Err(refused(part.trim())),
            };
            if place.0.replace(width(place.1)?).is_some() {
                return Err(refused(part.trim()));
            }
        }
        match (keys, values) {
            (Some(keys), Some(values)) => pair(keys, values),
            (None, _) => Err(refused("no k=")),
            (_, None) => Err(refused("no v=")),
        }
    }
}

impl fmt::Display for KvBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Turbo { keys, values } if keys == values => write!(f, "{}", keys.bits()),
            Self::Turbo { keys, values } => write!(f, "k={},v={}", keys.bits(), values.bits()),
        }
    }
}

/// Which of a model's layers are coded, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KvStore {
    /// The widths.
    pub bits: KvBits,
    /// How many of the first, and of the last, layers that see everything stay plain. `None`: two, or a quarter of them where that is
    /// less. The ends of a model mind errors most.
    pub ends: Option<usize>,
    /// Whether layers that see a window are coded too. They are short anyway.
    pub windows: bool,
    /// What rotations are drawn from.
    pub seed: u64,
}

impl KvStore {
    /// The layout with coded groups split off, each behind the group that it was part of. Groups that stay plain keep their codec.
    pub fn apply(&self, layout: KvLayout) -> KvLayout {
        let KvBits::Turbo { keys, values } = self.bits else { return layout };
        let codec = Codec::Turbo(Turbo { keys, values, seed: self.seed });
        let all = |group: &&KvGroup| group.reach == Reach::All;
        let mut full: Vec<usize> = layout.groups.iter().filter(all).flat_map(|g| g.layers.iter().copied()).collect();
        full.sort_unstable();
        let ends = self.ends.unwrap_or((full.len() / 4).min(2)).min(full.len());
        let inner = full.get(ends..full.len() - ends.min(full.len() - ends)).unwrap_or_default();
        let split = |group: KvGroup| {
            let coded = |layer: &usize| match group.reach {
                Reach::All => inner.contains(layer),
                Reach::Last(_) | Reach::Keep { .. } => self.windows,
            };
            let fits = group.dim <= Rotation::MAX_DIM;
            let (turbo, plain): (Vec<usize>, Vec<usize>) = group.layers.iter().partition(|layer| fits && coded(layer));
            let part = |layers: Vec<usize>, codec| KvGroup { layers, codec, ..group.clone() };
            let parts = [part(plain, group.codec), part(turbo, codec)];
            parts.into_iter().filter(|part| !part.layers.is_empty())
        };
        KvLayout { groups: layout.groups.into_iter().flat_map(split).collect() }
    }
}

#[cfg(test)]
mod tests;
