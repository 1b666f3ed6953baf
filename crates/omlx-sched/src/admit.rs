//! Which waiting sequence may start, and when it may not.
//!
//! Strictly in order of arrival, parked ones being the oldest. The head of the queue starts if all its present tokens fit
//! beside what those running still lack for theirs, and each of them can grow by one block more; otherwise it would
//! only be parked again. Alone it always starts: `arrive` refuses what could never fit.

use omlx_blocks::{GroupId, SeqId};

use crate::Sched;
use crate::plan::Draft;

impl Sched {
    /// Starts waiting sequences while the step, the rows and the pools allow.
    pub(crate) fn admit(&mut self, draft: &mut Draft) {
        if self.running.is_empty() {
            self.stuck = false;
        }
        while draft.left > 0
            && !self.stuck
            && self.running.len() < self.config.rows
            && let Some(&seq) = self.waiting.front()
        {
            if self.start(seq) {
                self.waiting.pop_front();
                self.running.push(seq);
                self.give(seq, draft);
            } else {
                self.stuck = true;
            }
        }
    }

    /// Opens a sequence on what the cache knows of it, unless the rest would not fit.
    fn start(&mut self, seq: SeqId) -> bool {
        let alone = self.running.is_empty();
        let tokens = &self.seqs[&seq].tokens;
        let hit = self.ledger.hit(tokens);
        self.ledger.open(seq, tokens, hit);
        if !alone && !self.fits_beside(seq) {
            self.ledger.close(seq);
            return false;
        }
        let seq = self.seq_mut(seq);
        seq.computed = hit;
        seq.cached.get_or_insert(hit.min(seq.prompt));
        true
    }

    fn fits_beside(&self, seq: SeqId) -> bool {
        (0..self.ledger.groups() as u32).map(GroupId).all(|group| {
            let running = self.running.iter();
            let others: usize = running.map(|&id| self.lacks(id, group) + 1).sum();
            others + self.lacks(seq, group) <= self.ledger.free_blocks(group)
        })
    }

    /// Blocks a sequence may still take on its way through its present tokens.
    fn lacks(&self, seq: SeqId, group: GroupId) -> usize {
        let len = self.seqs[&seq].tokens.len();
        let step = self.config.chunk_tokens.min(self.config.step_tokens);
        self.ledger.lacks(seq, group, len, step)
    }
}
