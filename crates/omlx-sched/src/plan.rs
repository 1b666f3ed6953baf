//! One step's rows.
//!
//! Rows that want one token come first, oldest first, so a decode never waits for a long prompt. What is left of the step
//! goes to those catching up, no more than keeps the step in time: a short time while somebody decodes, else a longer one. How it is divided is in
//! `share.rs`.
//!
//! The oldest sequence always gets at least one token: whoever cannot grow parks the youngest until it can.

use omlx_blocks::SeqId;

use crate::Sched;
use crate::share::{Budget, Want, divide};

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

impl Plan {
    /// Tokens of those catching up: all but the rows that want a single token.
    pub fn chunk_tokens(&self) -> usize {
        self.chunk_rows().map(|row| row.len).sum()
    }

    /// The rows of those catching up.
    pub(crate) fn chunk_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.len > 1 || row.logits == 0)
    }
}

/// A plan being made, and what the step has left.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) plan: Plan,
    pub(crate) left: usize,
}

impl Sched {
    /// Chooses the next step's rows and makes room for their tokens. Empty only if nobody is here who [may run].
    ///
    /// Every plan is settled, or said to have failed, before the next one is made.
    ///
    /// [may run]: Self::may_run
    pub fn plan(&mut self) -> Plan {
        let mut draft = Draft { plan: Plan::default(), left: self.config.step_tokens };
        let may_run = self.may_run();
        if may_run {
            self.order.step();
        }
        self.look_again();
        let most = self.most_rows();
        while self.running.len() > most
            && let Some(youngest) = self.youngest()
        {
            self.park(youngest, &mut draft);
        }
        self.overtake(most, &mut draft);
        self.decode(&mut draft);
        // Where someone has just been parked there is no room for anyone new.
        if draft.plan.parked.is_empty() || self.running.is_empty() {
            self.admit(most);
        }
        self.catch_up(&mut draft);
        assert!(!may_run || !draft.plan.rows.is_empty(), "someone is here but nobody moves");
        let in_order = self.running.last_key_value() < self.waiting.first_key_value() || self.waiting.is_empty();
        assert!(in_order, "someone waits for a younger one");
        draft.plan
    }

    /// One token for each who wants no more.
    fn decode(&mut self, draft: &mut Draft) {
        let decoding: Vec<SeqId> = self.running.values().copied().filter(|id| self.seqs[id].pending() == 1).collect();
        for seq in decoding {
            self.give(seq, 1, draft);
        }
    }

    /// The rest of the step for those who have more to read.
    fn catch_up(&mut self, draft: &mut Draft) {
        let somebody_decodes = !draft.plan.rows.is_empty();
        let pace = if somebody_decodes { &self.pace } else { &self.idle_pace };
        let planned = |seq: &SeqId| draft.plan.rows.iter().any(|row| row.seq == *seq);
        let behind: Vec<SeqId> = self.running.values().copied().filter(|seq| !planned(seq)).collect();
        let want = |seq| Want { start: self.seqs[seq].computed, len: self.seqs[seq].pending() };
        let wants: Vec<Want> = behind.iter().map(want).collect();
        let budget = Budget {
            cost: pace.chunk(),
            tokens: draft.left,
            chunk: self.config.chunk_tokens,
            least: self.config.min_chunk(),
        };
        let shares = divide(budget, self.cost, &wants);
        for (seq, share) in behind.into_iter().zip(shares) {
            if share > 0 {
                self.give(seq, share, draft);
            }
        }
    }

    /// Gives one running sequence up to `most` tokens, as far as the pools allow.
    fn give(&mut self, seq: SeqId, most: usize, draft: &mut Draft) {
        let rank = self.seqs[&seq].rank;
        // It may have been parked for an older one.
        if !self.running.contains_key(&rank) {
            return;
        }
        let (start, end) = (self.seqs[&seq].computed, self.seqs[&seq].tokens.len());
        while self.ledger.room(seq) <= start {
            let Some(youngest) = self.youngest() else {
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
        let own = self.seq_mut(seq);
        own.fresh = false;
        own.cached.get_or_insert(start.min(own.prompt));
        draft.left -= len;
        draft.plan.rows.push(Row { seq, start, len, logits: usize::from(start + len == end) });
    }

    /// Takes the youngest's blocks and puts it back into the queue; its sealed blocks stay findable.
    pub(crate) fn park(&mut self, youngest: SeqId, draft: &mut Draft) {
        draft.plan.rows.retain(|row| {
            let gone = row.seq == youngest;
            draft.left += if gone { row.len } else { 0 };
            !gone
        });
        self.close(youngest);
        let rank = self.seqs[&youngest].rank;
        self.running.remove(&rank);
        self.waiting.insert(rank, youngest);
        self.stuck = false;
        draft.plan.parked.push(youngest);
    }
}
