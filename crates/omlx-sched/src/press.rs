//! Memory pressure: how many may run while the guard says that memory is short.
//!
//! The guard measures bytes; all that is decided here is who gives way. Nobody is refused for what it might need: only
//! what is in use counts, and the first always passes.

use omlx_blocks::{BlockId, GroupId, SeqId};

use crate::{Outcome, Refused, Sched};

/// What the memory guard says between two steps; it stays until the guard says something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pressure {
    /// There is room.
    #[default]
    None,
    /// Above the soft limit: nobody is added to those who run, but where nobody runs the first one starts.
    Soft,
    /// Above the hard limit: the youngest are parked until `rows` are left, and nobody new is taken while anyone is here.
    Hard {
        /// How many may run. 0 says that memory is short even though one runs alone: that one is then refused.
        rows: usize,
        /// Bytes in use, for the text of a refusal.
        used_bytes: u64,
        /// The most there may be, for the text of a refusal.
        limit_bytes: u64,
    },
}

impl Sched {
    /// Takes in what the memory guard says; the next plan keeps to it.
    ///
    /// With 0 rows allowed, whoever runs alone ends here and is told why; where several run, all but the oldest are parked
    /// first, to see whether that helps.
    pub fn press(&mut self, pressure: Pressure) -> Vec<Outcome> {
        self.pressure = pressure;
        self.stuck = false;
        let mut outcomes = Vec::new();
        if let Pressure::Hard { rows: 0, .. } = pressure
            && self.running.len() == 1
            && let Some((_, &seq)) = self.running.first_key_value()
            && let Some(why) = self.short_of_memory()
        {
            self.cancel(seq);
            outcomes.push(Outcome::Refused { seq, why });
        }
        outcomes
    }

    /// Forgets what is only kept for later prompts, all of it or the half that is worth less, and answers for each group the blocks
    /// whose content is of no use any more, for their memory to be given back. Only between two steps.
    pub fn give_up(&mut self, all: bool) -> Vec<(GroupId, Vec<BlockId>)> {
        let groups = (0..self.ledger.groups() as u32).map(GroupId);
        let give_up = |group| {
            let keep = if all { 0 } else { self.ledger.idle_blocks(group) / 2 };
            (group, self.ledger.give_up(group, keep))
        };
        groups.map(give_up).collect()
    }

    /// What memory pressure says to someone, if it is above the hard limit.
    pub(crate) fn short_of_memory(&self) -> Option<Refused> {
        match self.pressure {
            Pressure::None | Pressure::Soft => None,
            Pressure::Hard { used_bytes, limit_bytes, .. } => {
                Some(Refused::Memory { used_bytes, limit_bytes, running: self.running(), waiting: self.waiting() })
            }
        }
    }

    /// How many may run in the step being planned. Under soft pressure one may take another's place, but nobody is added.
    pub(crate) fn most_rows(&self) -> usize {
        let most = match self.pressure {
            Pressure::None => self.config.rows,
            Pressure::Soft => self.running.len(),
            Pressure::Hard { rows, .. } => rows,
        };
        most.clamp(1, self.config.rows)
    }

    /// The youngest of those who run.
    pub(crate) fn youngest(&self) -> Option<SeqId> {
        self.running.last_key_value().map(|(_, &seq)| seq)
    }
}
