//! How much of a machine the guard lets this process take.

/// How much of the machine to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// Beside other work: 70 % of the memory, and 15 % stay free.
    Safe,
    /// On a machine that mostly serves: 85 %, and 8 % stay free.
    #[default]
    Balanced,
    /// On a machine that only serves: 95 %, and 3 % stay free.
    Aggressive,
}

impl Tier {
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Safe => "safe",
            Tier::Balanced => "balanced",
            Tier::Aggressive => "aggressive",
        }
    }
}

/// What the guard keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most this process may take.
    pub most_bytes: u64,
    /// What has to stay available on the machine, whoever takes the rest.
    pub spare_bytes: u64,
    /// Where these numbers come from; `None`: they were named.
    pub tier: Option<Tier>,
}

impl Limits {
    /// The tier's name, or `custom`.
    pub fn name(&self) -> &'static str {
        self.tier.map_or("custom", Tier::name)
    }

    /// The limits of a tier on a machine with so much memory.
    pub fn of(tier: Tier, installed_bytes: u64) -> Self {
        let (most, spare) = match tier {
            Tier::Safe => (70, 15),
            Tier::Balanced => (85, 8),
            Tier::Aggressive => (95, 3),
        };
        let share = |percent: u64| (u128::from(installed_bytes) * u128::from(percent) / 100) as u64;
        Limits { most_bytes: share(most), spare_bytes: share(spare), tier: Some(tier) }
    }

    /// A limit of one's own; what stays available is as in the boldest tier, where the memory of the machine is known.
    pub fn most(most_bytes: u64, installed_bytes: Option<u64>) -> Self {
        let spare = installed_bytes.map_or(0, |installed| Self::of(Tier::Aggressive, installed).spare_bytes);
        Limits { most_bytes, spare_bytes: spare, tier: None }
    }
}
