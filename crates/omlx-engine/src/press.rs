//! What the guard saw, as what the scheduler is told: how many may run.
//!
//! First of all, what is only cached goes back to the system: above the soft limit the half that is worth less, above the hard one all of it;
//! what counts is how memory is after that. If it is still above the hard limit, every new reading halves the rows, and the blocks of those
//! who gave way go back with the next one. Whoever runs alone is ended only if memory goes on growing with
//! nobody else to blame in here; if others have taken it, ending the last answer would give nothing back.

use std::time::Instant;

use omlx_sched::{Pressure, Refused};

use crate::engine::Engine;
use crate::guard::{Promise, Reading, Strain, Tally};

/// By how much of itself memory has to grow, while one runs alone, to be that one's doing.
const GROWTH_SHARE: u64 = 64;

/// The engine's place in the guard's ledger, and what it was told last.
pub(crate) struct Press {
    promise: Promise,
    seen: u64,
    alone: Option<u64>,
    /// The last reading was above the hard limit.
    hard: bool,
}

impl Press {
    pub(crate) fn new(promise: Promise) -> Self {
        Press { promise, seen: 0, alone: None, hard: false }
    }

    /// What to tell the scheduler, if there is news.
    fn news(&mut self, reading: Reading, running: usize) -> Option<Pressure> {
        let Reading { number, strain, used_bytes, limit_bytes } = reading;
        if number == self.seen {
            return None;
        }
        self.seen = number;
        self.hard = strain == Strain::Hard;
        let alone = self.alone.take().filter(|_| running == 1);
        Some(match strain {
            Strain::None => Pressure::None,
            Strain::Soft => Pressure::Soft,
            Strain::Hard => {
                let rows = match (running, alone) {
                    (0, _) => 1,
                    (1, Some(before)) if used_bytes > before + before / GROWTH_SHARE => 0,
                    (1, before) => {
                        self.alone = Some(before.unwrap_or(used_bytes));
                        1
                    }
                    (running, _) => running / 2,
                };
                Pressure::Hard { rows, used_bytes, limit_bytes }
            }
        })
    }
}

/// What is asked of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// How memory is.
    Now,
    /// How it was when anybody looked last.
    Last,
}

impl Engine {
    /// Asks the guard, gives back what it can if memory is short, and tells the scheduler what is new.
    pub(crate) fn press(&mut self, asked: Asked) {
        let Some(press) = &self.press else { return };
        let mut reading = match asked {
            Asked::Now => press.promise.guard().reading(Instant::now()),
            Asked::Last => press.promise.guard().last(),
        };
        if reading.number != press.seen && reading.strain != Strain::None && self.give_back(reading) > 0 {
            reading = self.press.as_ref().map_or(reading, |press| press.promise.guard().look(Instant::now()));
        }
        let Some(press) = &mut self.press else { return };
        if let Some(pressure) = press.news(reading, self.sched.running()) {
            let outcomes = self.sched.press(pressure);
            self.tell(outcomes, Vec::new());
        }
    }

    /// Gives memory of cached blocks back to the system and answers how many bytes.
    fn give_back(&mut self, Reading { number, strain, .. }: Reading) -> u64 {
        // Copies first: what the pools have is quicker to find.
        let tiering = self.tiering.as_ref();
        let mut given_back_bytes = tiering.map_or(0, |tiering| tiering.relieve(number, strain == Strain::Hard));
        // Where nothing comes of it nothing is forgotten.
        let given_up = if self.kv.gives_back() { self.sched.give_up(strain == Strain::Hard) } else { Vec::new() };
        for (group, blocks) in given_up {
            match self.kv.give_back(group, &blocks) {
                Ok(bytes) => given_back_bytes += bytes,
                // Nobody finds these blocks any more, whatever they hold now.
                Err(error) => tracing::error!(%error, "memory of cached blocks cannot be given back"),
            }
        }
        self.count(Tally { given_back_bytes, ..Tally::default() });
        given_back_bytes
    }

    /// Notes rows that gave way, if memory was why.
    pub(crate) fn parked(&self, rows: usize) {
        if self.press.as_ref().is_some_and(|press| press.hard) {
            self.count(Tally { parked: rows as u64, ..Tally::default() });
        }
    }

    /// Notes that somebody was refused.
    pub(crate) fn refused(&self, why: Refused) {
        if matches!(why, Refused::Memory { .. }) {
            self.count(Tally { refused: 1, ..Tally::default() });
        }
    }

    fn count(&self, tally: Tally) {
        if let Some(press) = &self.press {
            press.promise.guard().count(tally);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Readings in a row. Faults seen to be caught: the same reading counted twice; growth measured from one reading to the next.

    use super::*;
    use crate::guard::{Guard, Limits, Measure, Meter};

    struct Silent;
    impl Meter for Silent {
        fn measure(&self) -> Option<Measure> {
            None
        }
    }

    fn press() -> Press {
        let guard = Guard::new(Limits::most(1000, None), Box::new(Silent));
        Press::new(guard.promise(0))
    }

    fn hard(number: u64, used_bytes: u64) -> Reading {
        Reading { number, strain: Strain::Hard, used_bytes, limit_bytes: 1000 }
    }

    /// Rows allowed after each of the readings (bytes in use, rows running) above the hard limit.
    #[track_caller]
    fn check(readings: &[(u64, usize)], expected: &[usize]) {
        let mut press = press();
        let rows = readings.iter().zip(1..).map(|(&(used, running), number)| {
            let news = press.news(hard(number, used), running);
            assert_eq!(press.news(hard(number, used), running), None, "a reading is news once");
            match news {
                Some(Pressure::Hard { rows, .. }) => rows,
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn half_of_those_who_run_give_way() {
        check(&[(1100, 8), (1100, 4), (1100, 2), (1100, 1)], &[4, 2, 1, 1]);
        check(&[(1100, 3), (1100, 0)], &[1, 1]);
    }

    #[test]
    fn who_is_alone_stays_unless_memory_grows() {
        check(&[(1100, 1), (1100, 1), (1110, 1), (1117, 1)], &[1, 1, 1, 1]);
        // In steps too small to count one by one.
        check(&[(1100, 1), (1108, 1), (1116, 1), (1124, 1)], &[1, 1, 1, 0]);
        check(&[(1100, 1), (2000, 2), (2000, 1)], &[1, 1, 1]);
        check(&[(1100, 1), (2000, 1), (2000, 0), (2000, 1)], &[1, 0, 1, 1]);
    }

    #[test]
    fn relief_is_told_and_forgets() {
        let mut press = press();
        press.news(hard(1, 1100), 1);
        let at = |number, strain| Reading { number, strain, used_bytes: 500, limit_bytes: 1000 };
        assert_eq!(press.news(at(2, Strain::Soft), 1), Some(Pressure::Soft));
        assert_eq!(press.news(at(3, Strain::None), 1), Some(Pressure::None));
        assert!(matches!(press.news(hard(4, 2000), 1), Some(Pressure::Hard { rows: 1, .. })));
    }
}
