//! Who goes before whom: in order of arrival, and batch work some steps behind.
//!
//! A rank is given once and never changes. That is ageing all the same: every step that passes, the next interactive
//! sequence gets a later turn, until batch work that waits has the earlier one. And since nothing is reordered, nothing
//! is given and taken back in turns.

/// How urgent a sequence is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Somebody waits for it.
    #[default]
    Interactive,
    /// It goes behind interactive sequences that come up to [`head_start`](crate::Config::head_start) steps later.
    Batch,
}

/// A place in the order of everyone; the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// In steps.
    turn: u64,
    /// Of equal turns the earlier arrival.
    number: u64,
}

/// Gives ranks.
#[derive(Debug)]
pub(crate) struct Order {
    head_start: u64,
    steps: u64,
    given: u64,
}

impl Order {
    pub(crate) fn new(head_start: usize) -> Self {
        Self { head_start: head_start as u64, steps: 0, given: 0 }
    }

    /// A step goes by.
    pub(crate) fn step(&mut self) {
        self.steps += 1;
    }

    pub(crate) fn rank(&mut self, priority: Priority) -> Rank {
        let behind = match priority {
            Priority::Interactive => 0,
            Priority::Batch => self.head_start,
        };
        self.given += 1;
        Rank { turn: self.steps.saturating_add(behind), number: self.given }
    }
}
