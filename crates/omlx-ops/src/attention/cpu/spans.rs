//! Long rows shared out among threads: every span of keys by itself, then all joined in order.
//!
//! Spans are cut at fixed positions, and a task that goes over all of them alone joins them in the same order; so how many threads there
//! are, and how many tasks, changes nothing.

use std::ops::Range;

use super::pools::Pools;
use super::tile::State;
use super::{Job, Task, with_scratch};
use crate::simd::Isa;
use crate::threads::{self, SharedMut};

/// Numbers of all spans together that may wait to be joined.
const WAITING: usize = 4 << 20;

/// A span of a task's keys.
pub(super) struct Piece {
    /// The task's number.
    of: usize,
    task: Task,
    /// Its place among saved numbers.
    at: Range<usize>,
}

impl Job<'_> {
    /// The tasks' spans, each with the number of its task and its place among saved numbers; and how many numbers these are. Nothing where
    /// every task has only one, or they would take too much room.
    pub(super) fn pieces<P: Pools>(&self, tasks: &[Task], span: usize) -> Option<(Vec<Piece>, usize)> {
        let (mut pieces, mut numbers) = (Vec::new(), 0);
        for (of, task) in tasks.iter().enumerate() {
            let mut next = self.tile_from::<P>(task, 0);
            while let Some(tile) = next {
                let from = tile.start / span * span;
                let task =
                    Task { keys: from..from + span, tokens: task.tokens.clone(), heads: task.heads.clone(), ..*task };
                let len = State::saved(task.queries(), self.dim);
                pieces.push(Piece { of, task, at: numbers..numbers + len });
                numbers += len;
                next = self.tile_from::<P>(&tasks[of], from + span);
            }
        }
        (pieces.len() > tasks.len() && numbers <= WAITING).then_some((pieces, numbers))
    }

    /// Every span by itself, then each task's joined in order.
    pub(super) fn in_pieces<P: Pools>(
        &self,
        isa: Isa,
        pools: &P,
        tasks: &[Task],
        (pieces, numbers): (&[Piece], usize),
    ) {
        let mut room = vec![0f32; numbers];
        let shared = SharedMut::new(&mut room);
        threads::for_each(pieces.len(), |piece| {
            let Piece { task, at, .. } = &pieces[piece];
            with_scratch(|scratch| {
                scratch.state.begin(self, task, false);
                self.run(isa, pools, task, scratch);
                // SAFETY: every piece has a place of its own.
                scratch.state.save(unsafe { shared.slice(at.start, at.len()) });
            });
        });
        threads::for_each(tasks.len(), |of| {
            with_scratch(|scratch| {
                scratch.state.begin(self, &tasks[of], true);
                scratch.state.begin_total();
                for piece in pieces.iter().filter(|piece| piece.of == of) {
                    scratch.state.add_saved(&room[piece.at.clone()]);
                }
                scratch.state.swap_total();
                self.finish(isa, pools, &tasks[of], &scratch.state);
            });
        });
    }
}
