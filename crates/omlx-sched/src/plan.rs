//! One step's rows.
//!
//! Rows that want one token come first, oldest first, so a decode never waits for a long prompt. What is left of
//! the step goes to those catching up, oldest first, each at most a chunk; then to newcomers in order. Oldest first rather than
//! equal shares: of two long prompts the first one then answers in half the time, and the second no later.
//!
//! The oldest sequence always gets at least one token: whoever cannot grow parks the youngest until it can.

use omlx_blocks::SeqId;

use crate::Sched;

/// What the next step computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The rows, in the order of the packed batch.
    pub rows: Vec<Row>,
    /// Sequences that gave up their blocks for this step; they come back by themselves.
    pub parked: Vec<SeqId>,
}

/// Some tokens of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose tokens.
    pub seq: SeqId,
    /// The position of the first one.
    pub start: usize,
    /// How many; at least 1.
    pub len: usize,
    /// How many of the row's last positions want logits: 1 if the row reaches the sequence's end, else 0.
    pub logits: usize,
}

/// A plan being made, and what the step has left.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) plan: Plan,
    pub(crate) left: usize,
}

impl Sched {
    /// Chooses the next step's rows and makes room for their tokens. Empty only if nobody runs or waits.
    ///
    /// Every plan is settled before the next one is made.
    pub fn plan(&mut self) -> Plan {
        let mut draft = Draft { plan: Plan::default(), left: self.config.step_tokens };
        let (decoding, catching_up): (Vec<SeqId>, Vec<SeqId>) =
            self.running.iter().partition(|id| self.seqs[id].pending() == 1);
        for seq in decoding.into_iter().chain(catching_up) {
            // It may have been parked for an older one.
            if draft.left > 0 && self.running.contains(&seq) {
                self.give(seq, &mut draft);
            }
        }
        // Where someone has just been parked there is no room for anyone new.
        if draft.plan.parked.is_empty() {
            self.admit(&mut draft);
        }
        assert!(self.is_idle() || !draft.plan.rows.is_empty(), "someone is here but nobody moves");
        draft.plan
    }

    /// Gives one running sequence what it wants, as far as the step and the pools allow.
    pub(crate) fn give(&mut self, seq: SeqId, draft: &mut Draft) {
        let (start, end) = (self.seqs[&seq].computed, self.seqs[&seq].tokens.len());
        let most = (end - start).min(self.config.chunk_tokens).min(draft.left);
        while self.ledger.room(seq) <= start {
            let Some(&youngest) = self.running.last() else {
                return;
            };
            assert!(self.running.len() > 1, "{seq:?} is alone and cannot grow");
            self.park(youngest, draft);
            if youngest == seq {
                return;
            }
        }
        let len = most.min(self.ledger.room(seq) - start);
        let grown = self.ledger.grow(seq, start + len);
        assert!(grown.is_ok(), "{seq:?} does not fit where it had room");
        draft.left -= len;
        draft.plan.rows.push(Row { seq, start, len, logits: usize::from(start + len == end) });
    }

    /// Takes the youngest's blocks and puts it at the head of the queue; its sealed blocks stay findable.
    fn park(&mut self, youngest: SeqId, draft: &mut Draft) {
        draft.plan.rows.retain(|row| {
            let gone = row.seq == youngest;
            draft.left += if gone { row.len } else { 0 };
            !gone
        });
        self.ledger.close(youngest);
        self.running.pop();
        self.waiting.push_front(youngest);
        self.seq_mut(youngest).computed = 0;
        self.stuck = false;
        draft.plan.parked.push(youngest);
    }
}
