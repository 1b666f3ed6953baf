//! The memory guard as typed, and as the limits it comes to on this machine.

use std::fmt;
use std::str::FromStr;

use omlx_engine::guard::{Limits, Tier, installed_bytes};

use super::memory::{Memory, NotMemory, readable};

/// What the user wants of the memory guard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Guarding {
    /// Nobody watches.
    Off,
    /// A share that suits a kind of machine.
    Tier(Tier),
    /// So much for this process, fixed or as a share of what is installed.
    Most(Memory),
}

/// The guard with its question answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Guarded {
    /// As typed.
    wish: Guarding,
    /// `None`: off, as wished or because this system does not say how much memory it has.
    pub(crate) limits: Option<Limits>,
}

impl Guarding {
    /// What that comes to on this machine.
    pub(crate) fn resolve(self) -> Guarded {
        self.on(installed_bytes())
    }

    fn on(self, installed: Option<u64>) -> Guarded {
        let limits = match self {
            Self::Off => None,
            Self::Tier(tier) => installed.map(|installed| Limits::of(tier, installed)),
            Self::Most(Memory::Bytes(bytes)) => Some(Limits::most(bytes, installed)),
            Self::Most(share @ Memory::Percent(_)) => installed.map(|all| Limits::most(share.of(all), installed)),
        };
        Guarded { wish: self, limits }
    }
}

/// Why a text says nothing to the memory guard.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum NotGuarding {
    /// No tier, and no amount.
    #[error("expected safe, balanced, aggressive, off, a size with a unit (24GiB) or a share of all memory (60%)")]
    Form,
    /// An amount out of range.
    #[error(transparent)]
    Amount(NotMemory),
}

impl FromStr for Guarding {
    type Err = NotGuarding;

    fn from_str(text: &str) -> Result<Self, NotGuarding> {
        Ok(match text.trim().to_ascii_lowercase().as_str() {
            "off" => Self::Off,
            "safe" => Self::Tier(Tier::Safe),
            "balanced" => Self::Tier(Tier::Balanced),
            "aggressive" => Self::Tier(Tier::Aggressive),
            amount => Self::Most(amount.parse().map_err(|not| match not {
                // Its own words on the form would be the same list once more.
                NotMemory::Form => NotGuarding::Form,
                not => NotGuarding::Amount(not),
            })?),
        })
    }
}

impl fmt::Display for Guarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Tier(Tier::Safe) => f.write_str("safe"),
            Self::Tier(Tier::Balanced) => f.write_str("balanced"),
            Self::Tier(Tier::Aggressive) => f.write_str("aggressive"),
            Self::Most(memory) => write!(f, "{memory}"),
        }
    }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.wish, self.limits) {
            (Guarding::Off, _) => f.write_str("off"),
            (wish, None) => write!(f, "OFF: this system does not say how much memory it has, so {wish} means nothing"),
            (wish, Some(Limits { most_bytes, spare_bytes, .. })) => {
                write!(f, "{wish}: at most {} here, {} left free", readable(most_bytes), readable(spare_bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! What is typed, and what it comes to.

    use super::*;

    const GIB: u64 = 1 << 30;

    #[track_caller]
    fn check(text: &str, limits: Option<(u64, u64)>, shown: &str) {
        let guarded = text.parse::<Guarding>().unwrap().on(Some(100 * GIB));
        let found = guarded.limits.map(|l| (l.most_bytes / GIB, l.spare_bytes / GIB));
        assert_eq!((found, guarded.to_string().as_str()), (limits, shown));
    }

    #[test]
    fn what_may_be_typed() {
        check("safe", Some((70, 15)), "safe: at most 70.0 GiB here, 15.0 GiB left free");
        check("Balanced", Some((85, 8)), "balanced: at most 85.0 GiB here, 8.0 GiB left free");
        check("aggressive", Some((95, 3)), "aggressive: at most 95.0 GiB here, 3.0 GiB left free");
        check("24GiB", Some((24, 3)), "24.0 GiB: at most 24.0 GiB here, 3.0 GiB left free");
        check("60%", Some((60, 3)), "60%: at most 60.0 GiB here, 3.0 GiB left free");
        check("off", None, "off");
    }

    #[test]
    fn what_may_not() {
        for text in ["", "bold", "24", "0%", "120%"] {
            assert!(text.parse::<Guarding>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_system_that_does_not_say_how_much_it_has() {
        let [tier, share, size] = ["safe", "60%", "2GiB"].map(|text| text.parse::<Guarding>().unwrap().on(None));
        assert_eq!((tier.limits, share.limits), (None, None));
        assert!(tier.to_string().starts_with("OFF"), "{tier}");
        assert_eq!(size.limits, Some(Limits { most_bytes: 2 * GIB, spare_bytes: 0, tier: None }));
    }
}
