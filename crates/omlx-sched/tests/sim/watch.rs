//! What must be true of every plan and every booking.

use omlx_blocks::{Reach, SeqId};
use omlx_sched::{Finish, Outcome, Plan, Pressure, Sampled};

use crate::ticket::Ticket;
use crate::world::{BLOCK, World};

impl World {
    /// Limits kept; the oldest moves; one-token rows come first, oldest first, and nobody's is left out.
    pub(crate) fn plan_is_fair(&mut self, plan: &Plan, before: usize) {
        let total: usize = plan.rows.iter().map(|row| row.len).sum();
        assert!(total <= self.config.step_tokens && plan.rows.len() <= self.config.rows);
        self.rows_fit_the_pressure(plan, before);
        let oldest = self.oldest().expect("a plan with rows is somebody's");
        assert!(plan.rows.iter().any(|row| row.seq == oldest), "{oldest:?} stands still");
        for parked in &plan.parked {
            let ticket = self.tickets.get_mut(parked).expect("alive");
            assert_ne!(*parked, oldest, "the oldest gave way");
            ticket.computed = None;
            let overtaken = self.tickets.iter().any(|(seq, t)| *seq > *parked && t.rank < self.tickets[parked].rank);
            self.totals.count("parked", 1);
            self.totals.count("batch work overtaken", usize::from(overtaken));
        }
        // 0: one token of those already running; 1: those catching up.
        let rank = |ticket: &Ticket| match ticket.computed {
            Some(computed) if computed + 1 == ticket.tokens.len() => (0, ticket.rank),
            _ => (1, ticket.rank),
        };
        // One that has started without a row, and lacks a single token, may stand on either side.
        let old = |seq: &SeqId| self.tickets[seq].computed.is_some();
        let ranks: Vec<_> =
            plan.rows.iter().filter(|row| old(&row.seq)).map(|row| rank(&self.tickets[&row.seq])).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "out of order: {ranks:?}");
        let planned = ranks.iter().filter(|rank| rank.0 == 0).count();
        let decoding = self.tickets.values().filter(|ticket| rank(ticket).0 == 0).count();
        assert_eq!(planned, decoding, "a decoding row waits");
        if decoding > 0 && self.config.target.is_some() {
            let chunk = self.sched.chunk();
            assert!(plan.chunk_tokens() <= chunk, "{} of {chunk} chunk tokens", plan.chunk_tokens());
            let short = plan.chunk_tokens() == chunk && total < self.config.step_tokens;
            self.totals.count("chunks below the step for the target", usize::from(short));
        }
    }

    fn rows_fit_the_pressure(&mut self, plan: &Plan, before: usize) {
        let after = self.sched.running();
        match self.pressure {
            Pressure::None => {}
            Pressure::Soft => {
                assert!(after <= before.max(1), "{before} ran, now {after}");
                self.totals.count("steps under soft pressure", 1);
            }
            Pressure::Hard { rows, .. } => {
                assert!(after <= rows.max(1), "{rows} may run, {after} do");
                self.totals.count("parked under hard pressure", plan.parked.len());
            }
        }
        let started = after.saturating_sub(plan.rows.len());
        self.totals.count("runs without a row", started);
    }

    fn oldest(&self) -> Option<SeqId> {
        let queue = self.tickets.iter().filter(|(_, ticket)| ticket.aside_until.is_none());
        queue.min_by_key(|(_, ticket)| ticket.rank).map(|(&seq, _)| seq)
    }

    /// Each row goes on exactly where its sequence stopped, or at what the cache knew of it.
    pub(crate) fn rows_are_in_turn(&mut self, plan: &Plan) {
        for row in &plan.rows {
            let ticket = &self.tickets[&row.seq];
            assert_eq!(ticket.aside_until, None, "{row:?} is set aside");
            let (end, all) = (row.start + row.len, ticket.tokens.len());
            assert!(row.len >= 1 && row.len <= self.config.chunk_tokens && end <= all);
            assert_eq!(row.logits, usize::from(end == all));
            match ticket.computed {
                Some(computed) => assert_eq!(row.start, computed, "{row:?} out of turn"),
                None => self.starts_on_a_hit(row.seq, row.start),
            }
            self.tickets.get_mut(&row.seq).expect("alive").computed = Some(end);
        }
    }

    fn starts_on_a_hit(&mut self, seq: SeqId, start: usize) {
        let ticket = &self.tickets[&seq];
        assert!(start < ticket.tokens.len());
        let cached = self.sched.cached(seq);
        assert!(cached < ticket.prompt);
        let first = ticket.tokens.len() == ticket.prompt && cached == start;
        let what = if first { "cached" } else { "comebacks through prefix keys" };
        self.totals.count(what, usize::from(start > 0));
        self.totals.count("starts in the middle of a block", usize::from(!start.is_multiple_of(BLOCK)));
        for group in self.groups() {
            let table = self.sched.ledger().table(seq, group);
            let found = table.live().take(start.div_ceil(BLOCK) - table.forgotten());
            for id in found {
                assert!(!self.bad.contains(&(group.index(), id.index())), "{seq:?} was given a bad block");
            }
        }
    }

    /// Everything the token at `pos` sees, itself included, is its own history.
    pub(crate) fn reads_its_past(&self, seq: SeqId, pos: usize) {
        for (g, &reach) in self.reaches.iter().enumerate() {
            for p in 0..=pos {
                let seen = match reach {
                    Reach::All => true,
                    Reach::Last(w) => p + w > pos,
                    Reach::Keep { first, last } => p < first || p + last > pos,
                };
                if seen {
                    let entry = self.memory[g][self.slot(seq, g, p)];
                    let own = Some((self.tickets[&seq].histories[p], p));
                    assert_eq!(entry, own, "{seq:?} at {pos} sees {p} in group {g}");
                }
            }
        }
    }

    /// The outcomes are exactly those that the rules give, once each.
    pub(crate) fn book(&mut self, plan: &Plan, sampled: &[Sampled], outcomes: &[Outcome]) {
        let mut expected = Vec::new();
        let most = self.sched.ledger().capacity();
        for &Sampled { seq, id } in sampled {
            // Cancelled while the step ran: nothing more is said.
            let Some(ticket) = self.tickets.get_mut(&seq) else {
                continue;
            };
            let why = if ticket.stop.contains(&id) {
                self.totals.count("stops", 1);
                Some(Finish::Stop)
            } else {
                ticket.push(id);
                expected.push(Outcome::Token { seq, id });
                let limit = ticket.tokens.len() - ticket.prompt == ticket.limit;
                let context = ticket.tokens.len() == self.config.context;
                let pool = ticket.tokens.len() > most;
                self.totals.count("ends at the pool's limit", usize::from(pool && !limit && !context));
                (limit || context || pool).then_some(Finish::Length)
            };
            if let Some(why) = why {
                expected.push(Outcome::Done { seq, why });
                self.tickets.remove(&seq);
                self.totals.count("done", 1);
                self.totals.count("lengths", usize::from(why == Finish::Length));
            }
        }
        assert_eq!(outcomes, expected);
        for row in plan.rows.iter().filter(|row| self.tickets.contains_key(&row.seq)) {
            for group in (0..self.reaches.len() as u32).map(omlx_blocks::GroupId) {
                let table = self.sched.ledger().table(row.seq, group);
                self.totals.count("forgotten", table.forgotten());
                self.totals.count("kept starts with a gap", usize::from(table.kept() > 0 && !table.gap().is_empty()));
            }
        }
    }

    pub(crate) fn nobody_is_late(&self) {
        for (seq, ticket) in &self.tickets {
            assert!(ticket.aside_until.is_some() || self.totals.steps < ticket.deadline, "{seq:?} starves");
            assert_eq!(self.sched.tokens(*seq), ticket.tokens);
        }
    }
}
