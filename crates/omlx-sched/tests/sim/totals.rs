//! How often the interesting things happened, so that a green run is known to have tested them.

use std::collections::BTreeMap;
use std::fmt;

/// Everything that has to happen often in a run of CI's length.
const INTERESTING: &[&str] = &[
    "adopted blocks",
    "adopted tails",
    "bad logits",
    "batch work overtaken",
    "blocks given up",
    "cached",
    "cancelled",
    "cancelled while set aside",
    "chunks below the step for the target",
    "comebacks through prefix keys",
    "starts in the middle of a block",
    "done",
    "ends at the pool's limit",
    "failed steps",
    "fetches cut short",
    "fetches of all that was lacking",
    "fetches of tails",
    "fetches that were decided long before",
    "forgotten",
    "forks",
    "set aside",
    "kept starts with a gap",
    "lengths",
    "parked",
    "parked under hard pressure",
    "refused: empty",
    "refused: full",
    "refused: memory",
    "refused: never fits",
    "refused: too long",
    "refused while running",
    "runs without a row",
    "steps under soft pressure",
    "stops",
];

#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) steps: usize,
    counts: BTreeMap<&'static str, usize>,
}

impl Totals {
    pub(crate) fn count(&mut self, what: &'static str, times: usize) {
        assert!(INTERESTING.contains(&what), "{what} is not on the list");
        *self.counts.entry(what).or_default() += times;
    }

    pub(crate) fn add(&mut self, run: &Totals) {
        self.steps += run.steps;
        run.counts.iter().for_each(|(what, &times)| self.count(what, times));
    }

    pub(crate) fn everything_happened(&self) {
        for what in INTERESTING {
            let times = self.counts.get(what).copied().unwrap_or(0);
            assert!(times >= 100, "{what}: only {times} times");
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} steps", self.steps)?;
        self.counts.iter().try_for_each(|(what, times)| write!(f, "\n{times:8} {what}"))
    }
}
