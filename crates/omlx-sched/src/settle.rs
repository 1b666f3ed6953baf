//! Booking what the step produced.

use omlx_blocks::SeqId;

use crate::door::Left;
use crate::{Finish, Outcome, Plan, Row, Sched};

/// The token chosen for one row that wanted logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Whose.
    pub seq: SeqId,
    /// The token.
    pub id: u32,
}

impl Sched {
    /// Books a step: `sampled` has one entry for every row of the plan with `logits > 0`, in row order.
    ///
    /// # Panics
    /// If `sampled` does not match the plan.
    pub fn settle(&mut self, plan: &Plan, sampled: &[Sampled]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let mut sampled = sampled.iter();
        for row in &plan.rows {
            let id = (row.logits > 0).then(|| {
                let next = sampled.next().filter(|sampled| sampled.seq == row.seq);
                next.unwrap_or_else(|| panic!("{row:?} has no sampled token")).id
            });
            if self.seqs.contains_key(&row.seq) {
                self.book(row, id, &mut outcomes);
            }
        }
        assert!(sampled.next().is_none(), "a sampled token has no row");
        outcomes
    }

    /// Ends everyone in a step that failed, and answers whom: nobody knows how much of it is in the cache.
    ///
    /// Their blocks go back. What earlier steps sealed stays findable, since a step writes only into open blocks; whoever is not
    /// in the plan goes on.
    pub fn fail(&mut self, plan: &Plan) -> Vec<SeqId> {
        let here = plan.rows.iter().map(|row| row.seq).filter(|seq| self.seqs.contains_key(seq));
        let failed: Vec<SeqId> = here.collect();
        failed.iter().for_each(|&seq| self.drop_as(seq, Left::HalfWritten));
        failed
    }

    fn book(&mut self, row: &Row, id: Option<u32>, outcomes: &mut Vec<Outcome>) {
        let (context, most) = (self.config.context, self.ledger.capacity());
        let seq = self.seqs.get_mut(&row.seq);
        let seq = seq.unwrap_or_else(|| panic!("{row:?} is unknown"));
        assert_eq!(row.start, seq.computed, "{row:?} settled out of turn");
        seq.computed += row.len;
        self.ledger.seal(row.seq, &seq.tokens, seq.computed);
        let Some(id) = id else { return };
        let read = seq.tokens.len() == seq.prompt;
        // All of it is now in the cache, though the last chunk may have been a single token: the head of the queue may find some of it.
        self.stuck &= !read && row.len == 1;
        if read {
            // The next turn of a conversation parts from this one here, or later; the same prompt again is computed from its last
            // token on.
            self.ledger.anchor(row.seq, seq.prompt - 1);
        }
        if seq.stop.contains(&id) {
            return self.finish(row.seq, Finish::Stop, outcomes);
        }
        seq.tokens.push(id);
        let new = seq.tokens.len() - seq.prompt;
        // The token just sampled needs a place in the cache only if another one is to follow.
        let full = seq.tokens.len() >= context || seq.tokens.len() > most;
        let done = new >= seq.limit || full;
        outcomes.push(Outcome::Token { seq: row.seq, id });
        if done {
            self.finish(row.seq, Finish::Length, outcomes);
        }
    }

    fn finish(&mut self, seq: SeqId, why: Finish, outcomes: &mut Vec<Outcome>) {
        self.cancel(seq);
        outcomes.push(Outcome::Done { seq, why });
    }
}
