//! Which waiting sequence may start, and when it may not.
//!
//! Strictly in order. The head of the queue starts if all its present tokens fit beside what those running still lack for
//! theirs, and each of them can grow by one block more; otherwise it would only be parked again. Alone it always starts:
//! `arrive` refuses what could never fit. Starting takes nothing from the step: who gets tokens is decided afterwards.
//!
//! If somebody younger runs while the head waits, the head is interactive and the other is batch work: that one gives way.

use omlx_blocks::{GroupId, SeqId};

use crate::Sched;
use crate::plan::Draft;

impl Sched {
    /// Lets those who wait take the place of younger ones who run, until whoever runs is older than whoever waits.
    pub(crate) fn overtake(&mut self, most: usize, draft: &mut Draft) {
        while let Some((head, &seq)) = self.waiting.first_key_value()
            && let Some((last, &youngest)) = self.running.last_key_value()
            && head < last
        {
            if self.running.len() >= most || !self.start(seq) {
                self.park(youngest, draft);
            }
        }
    }

    /// Starts waiting sequences while rows and pools allow.
    pub(crate) fn admit(&mut self, most: usize) {
        if self.running.is_empty() {
            self.stuck = false;
        }
        while !self.stuck
            && self.running.len() < most
            && let Some((_, &seq)) = self.waiting.first_key_value()
        {
            self.stuck = !self.start(seq);
        }
    }

    /// Opens a sequence on what the cache knows of it, unless the rest would not fit.
    fn start(&mut self, seq: SeqId) -> bool {
        let alone = self.running.is_empty();
        let own = self.seqs.get_mut(&seq);
        let own = own.unwrap_or_else(|| panic!("{seq:?} is unknown"));
        self.ledger.follow(&mut own.trail, &own.tokens);
        let (hit, rank) = (self.ledger.hit_along(&own.trail, &own.tokens), own.rank);
        self.open(seq, hit);
        if !alone && !self.fits_beside(seq) {
            self.close(seq);
            return false;
        }
        self.waiting.remove(&rank);
        self.running.insert(rank, seq);
        true
    }

    fn open(&mut self, seq: SeqId, hit: usize) {
        let own = self.seqs.get_mut(&seq);
        let own = own.unwrap_or_else(|| panic!("{seq:?} is unknown"));
        self.ledger.open_along(seq, &own.trail, &own.tokens, hit);
        own.computed = hit;
        own.fresh = true;
    }

    /// Gives its blocks back; what is computed stays findable.
    pub(crate) fn close(&mut self, seq: SeqId) {
        let own = self.seqs.get_mut(&seq);
        let own = own.unwrap_or_else(|| panic!("{seq:?} is unknown"));
        self.ledger.close_with_tail(seq, &own.tokens[..own.computed]);
        own.computed = 0;
        own.fresh = false;
    }

    /// Looks again for those who have started but computed nothing: meanwhile others may have sealed what they need, or
    /// what they found may have turned out to be bad.
    pub(crate) fn look_again(&mut self) {
        let fresh: Vec<SeqId> = self.running.values().copied().filter(|seq| self.seqs[seq].fresh).collect();
        for seq in fresh {
            let own = &self.seqs[&seq];
            let (hit, block) = (self.ledger.hit_along(&own.trail, &own.tokens), self.ledger.block());
            // The tail that it has taken over is not to be found again.
            if hit > own.computed || hit / block != own.computed / block {
                self.close(seq);
                let own = &self.seqs[&seq];
                let hit = self.ledger.hit_along(&own.trail, &own.tokens);
                self.open(seq, hit);
            }
        }
    }

    fn fits_beside(&self, seq: SeqId) -> bool {
        (0..self.ledger.groups() as u32).map(GroupId).all(|group| {
            let running = self.running.values();
            let others: usize = running.map(|&id| self.lacks(id, group) + 1).sum();
            others + self.lacks(seq, group) <= self.ledger.free_blocks(group)
        })
    }

    /// Blocks a sequence may still take on its way through its present tokens.
    fn lacks(&self, seq: SeqId, group: GroupId) -> usize {
        let len = self.seqs[&seq].tokens.len();
        self.ledger.lacks(seq, group, len, self.config.chunk_tokens)
    }
}
