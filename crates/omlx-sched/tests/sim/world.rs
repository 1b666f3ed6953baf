//! A small engine around the scheduler: its clients, its memory, a make-believe model, and everything that can go wrong.

use std::collections::{BTreeMap, BTreeSet};

use omlx_blocks::{BlockKey, GroupId, GroupSize, Lack, Ledger, Reach, Salt, SeqId, Slot};
use omlx_sched::{Arrival, Branch, Config, Outcome, Plan, Pressure, Priority, Refused, Row, Sampled, Sched, Target};

use crate::Trace;
use crate::dice::{Dice, mix};
use crate::ticket::Ticket;
use crate::totals::Totals;

pub(crate) const BLOCK: usize = 4;

/// How often things go wrong: one in so many.
struct Odds {
    cancel: usize,
    bad_logits: usize,
    failure: usize,
    hold: usize,
    pressure: usize,
}

pub(crate) struct World {
    dice: Dice,
    pub(crate) sched: Sched,
    pub(crate) config: Config,
    pub(crate) reaches: Vec<Reach>,
    pub(crate) memory: Vec<Vec<Option<(u64, usize)>>>,
    /// Blocks whose content is not to be trusted, by group.
    pub(crate) bad: BTreeSet<(usize, usize)>,
    pub(crate) tickets: BTreeMap<SeqId, Ticket>,
    pub(crate) pressure: Pressure,
    next: u64,
    /// Ranks given.
    numbers: usize,
    /// Times around the loop.
    round: usize,
    odds: Odds,
    pub(crate) rounds_with_arrivals: usize,
    pub(crate) totals: Totals,
    /// All plans and outcomes, to compare two runs.
    pub(crate) trace: Trace,
}

fn reach(dice: &mut Dice) -> Reach {
    match dice.roll(1, 4) {
        1 => Reach::All,
        2 => Reach::Keep { first: dice.roll(0, 9), last: dice.roll(1, 11) },
        _ => Reach::Last(dice.roll(1, 11)),
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice(mix(seed));
        let reaches: Vec<Reach> = (0..dice.roll(1, 3)).map(|_| reach(&mut dice)).collect();
        let sizes: Vec<GroupSize> =
            reaches.iter().map(|&reach| GroupSize { reach, blocks: dice.roll(1, 14) }).collect();
        let micros = dice.roll(50, 2000) as u64;
        let idle_micros = micros * dice.roll(0, 4) as u64;
        let depth = if dice.one_in(2) { usize::MAX } else { dice.roll(1, 40) };
        let target = Target { micros, idle_micros, min_chunk: dice.roll(1, 4), depth };
        let config = Config {
            step_tokens: dice.roll(1, 20),
            rows: dice.roll(1, 6),
            chunk_tokens: dice.roll(1, 12),
            waiting: dice.roll(1, 8),
            context: dice.roll(8, 60),
            head_start: dice.roll(0, 40),
            target: dice.one_in(2).then_some(target),
        };
        let memory = sizes.iter().map(|size| vec![None; size.blocks * BLOCK]);
        Self {
            memory: memory.collect(),
            bad: BTreeSet::new(),
            sched: Sched::new(config, Ledger::new(BLOCK, &sizes, Salt::of(&[]))),
            config,
            reaches,
            tickets: BTreeMap::new(),
            pressure: Pressure::None,
            next: 0,
            numbers: 0,
            round: 0,
            odds: Odds {
                cancel: dice.roll(10, 60),
                bad_logits: dice.roll(20, 200),
                failure: dice.roll(20, 200),
                hold: dice.roll(3, 12),
                pressure: dice.roll(5, 60),
            },
            rounds_with_arrivals: dice.roll(10, 60),
            totals: Totals::default(),
            trace: Vec::new(),
            dice,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        assert_eq!(self.sched.is_idle(), self.tickets.is_empty());
        self.sched.is_idle()
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.reaches.len() as u32).map(GroupId)
    }

    pub(crate) fn nothing_is_left(&self) {
        let ledger = self.sched.ledger();
        for group in self.groups() {
            assert_eq!(ledger.free_blocks(group), ledger.blocks(group), "a block is lost");
        }
    }

    /// Once around the engine's loop.
    pub(crate) fn round(&mut self) {
        self.round += 1;
        self.cancels();
        self.fetches();
        let mut outcomes = self.presses();
        let before = self.sched.running();
        let plan = self.sched.plan();
        self.sched.check();
        if plan.rows.is_empty() {
            assert!(self.tickets.values().all(|ticket| ticket.aside_until.is_some()), "an empty plan");
        } else {
            self.totals.steps += 1;
            self.plan_is_fair(&plan, before);
            self.rows_are_in_turn(&plan);
            self.step(&plan, &mut outcomes);
        }
        self.sched.check();
        self.nobody_is_late();
        self.trace.push((plan, outcomes));
    }

    /// What the model does with a plan, and what comes of it.
    fn step(&mut self, plan: &Plan, outcomes: &mut Vec<Outcome>) {
        self.write(plan);
        for row in &plan.rows {
            (row.start..row.start + row.len).for_each(|pos| self.reads_its_past(row.seq, pos));
        }
        let sampled = self.sample(plan);
        self.cancels();
        self.bad_logits(&sampled);
        if self.dice.one_in(self.odds.failure) {
            return self.fails(plan);
        }
        self.sched.took(plan, 40 + 20 * plan.chunk_tokens() as u64);
        let told = self.sched.settle(plan, &sampled);
        self.book(plan, &sampled, &told);
        outcomes.extend(told);
    }

    fn fresh(&mut self) -> SeqId {
        self.next += 1;
        SeqId(self.next)
    }

    /// One of those who are here.
    fn someone(&mut self) -> Option<SeqId> {
        let at = self.dice.roll(0, self.tickets.len().max(1) - 1);
        self.tickets.keys().nth(at).copied()
    }

    pub(crate) fn arrivals(&mut self) {
        while self.dice.one_in(3) {
            let seq = self.fresh();
            let limit = self.dice.roll(1, 20);
            let stop: Vec<u32> = (0..self.dice.roll(0, 2) as u32).map(|s| 90 + s).collect();
            let priority = if self.dice.one_in(3) { Priority::Batch } else { Priority::Interactive };
            if self.dice.one_in(4)
                && let Some(parent) = self.someone()
            {
                let tokens = self.dice.roll(1, self.tickets[&parent].tokens.len());
                let branch = Branch { seq, tokens, limit, stop: stop.clone(), priority };
                let tokens = self.tickets[&parent].tokens[..tokens].to_vec();
                let answer = self.sched.fork(parent, branch);
                self.totals.count("forks", usize::from(answer.is_ok()));
                self.took_or_refused(Arrival { seq, tokens, limit, stop, priority }, answer);
            } else {
                // Few beginnings and few tokens, so that prompts share prefixes of every length.
                let shared = self.dice.roll(0, 24);
                let mut tokens: Vec<u32> = (0..shared as u32).map(|p| p % 3).collect();
                for _ in 0..self.dice.roll(0, 8) {
                    tokens.push(self.dice.roll(0, 2) as u32);
                }
                let arrival = Arrival { seq, tokens, limit, stop, priority };
                let answer = self.sched.arrive(arrival.clone());
                self.took_or_refused(arrival, answer);
            }
            self.sched.check();
        }
    }

    fn took_or_refused(&mut self, arrival: Arrival, answer: Result<(), Refused>) {
        let tokens = arrival.tokens.len();
        let what = match answer {
            Err(Refused::Full { waiting }) => {
                assert!(waiting >= self.config.waiting && waiting == self.sched.waiting());
                "refused: full"
            }
            Err(Refused::Empty) => {
                assert_eq!(tokens, 0);
                "refused: empty"
            }
            Err(Refused::TooLong { context, .. }) => {
                assert!(tokens >= context && context == self.config.context);
                "refused: too long"
            }
            Err(Refused::NeverFits { most, .. }) => {
                assert!(tokens > most && most == self.sched.ledger().capacity());
                "refused: never fits"
            }
            Err(Refused::Memory { limit_bytes: 5, running, waiting, .. }) => {
                assert!(matches!(self.pressure, Pressure::Hard { .. }) && running + waiting == self.tickets.len());
                assert!(!self.tickets.is_empty(), "the first always passes");
                "refused: memory"
            }
            Err(refused) => panic!("{refused:?}"),
            Ok(()) => {
                let hard = matches!(self.pressure, Pressure::Hard { .. });
                assert!(!hard || self.tickets.is_empty(), "taken under hard pressure");
                let Arrival { seq, tokens, limit, stop, priority } = arrival;
                self.tickets.insert(seq, Ticket::new(&tokens, limit, stop, priority));
                self.takes_its_place(seq);
                if self.dice.one_in(self.odds.hold) {
                    assert!(self.sched.set_aside(seq) && self.sched.set_aside(seq));
                    let until = self.round + self.dice.roll(0, 30);
                    let lack = self.dice.one_in(2).then(|| self.lacks(seq));
                    let ticket = self.tickets.get_mut(&seq).expect("just come");
                    (ticket.aside_until, ticket.lack) = (Some(until), lack);
                    self.totals.count("set aside", 1);
                }
                return;
            }
        };
        self.totals.count(what, 1);
    }

    /// Ranks a sequence that comes into the queue, and moves the time by which those behind it must have ended.
    fn takes_its_place(&mut self, seq: SeqId) {
        self.numbers += 1;
        let mut ticket = self.tickets.remove(&seq).expect("here");
        let head_start = if ticket.priority == Priority::Batch { self.config.head_start } else { 0 };
        ticket.rank = (self.totals.steps + head_start, self.numbers);
        ticket.aside_until = None;
        // The oldest moves in every step; so all before it, then it, take at most this long.
        let queue = || self.tickets.values().filter(|ticket| ticket.aside_until.is_none());
        let ahead: usize = queue().filter(|other| other.rank < ticket.rank).map(Ticket::work).sum();
        // Who is overtaken may be parked and begin again, the oldest too.
        let oldest = queue().min_by_key(|ticket| ticket.rank).map_or(0, Ticket::work);
        ticket.deadline = self.totals.steps + ahead + ticket.work();
        for other in self.tickets.values_mut().filter(|other| other.rank > ticket.rank) {
            other.deadline += ticket.work() + oldest;
        }
        self.tickets.insert(seq, ticket);
    }

    fn cancels(&mut self) {
        if self.dice.one_in(self.odds.cancel) && self.next > 0 {
            // Sometimes one that never came or has ended.
            let seq = SeqId(self.dice.roll(1, self.next as usize) as u64);
            self.sched.cancel(seq);
            self.sched.cancel(seq);
            if let Some(ticket) = self.tickets.remove(&seq) {
                self.totals.count("cancelled", 1);
                self.totals.count("cancelled while set aside", usize::from(ticket.aside_until.is_some()));
            }
            assert!(!self.sched.set_aside(seq), "{seq:?} is set aside after its end");
            self.sched.take_back(seq);
            self.sched.check();
        }
    }

    /// Slow prefixes that have come: none, some or all of their blocks, in some or all groups.
    fn fetches(&mut self) {
        let due = |ticket: &Ticket| ticket.aside_until.is_some_and(|until| until <= self.round);
        let due: Vec<SeqId> = self.tickets.iter().filter(|(_, ticket)| due(ticket)).map(|(&seq, _)| seq).collect();
        for seq in due {
            let early = self.tickets.get_mut(&seq).expect("here").lack.take();
            self.totals.count("fetches that were decided long before", usize::from(early.is_some()));
            if early.is_some() || self.dice.one_in(2) {
                self.fetch(seq, early);
                self.sched.take_back(seq);
                self.takes_its_place(seq);
                self.sched.check();
                continue;
            }
            let whole = self.sched.trail(seq).blocks();
            // In all groups the same: a tail that one of them lacks is of no use.
            let rest = self.tickets[&seq].tokens.len() - whole * BLOCK;
            let end = whole * BLOCK + self.dice.roll(0, rest.min(BLOCK - 1));
            let with_tail = self.dice.one_in(2);
            for group in self.groups() {
                let blocks = if with_tail { end.div_ceil(BLOCK) } else { self.dice.roll(0, whole) };
                for i in (0..blocks).rev() {
                    let (from, to) = (i * BLOCK, end.min((i + 1) * BLOCK));
                    let ticket = &self.tickets[&seq];
                    if let Some(id) = self.sched.adopt(seq, group, i, to) {
                        self.totals.count("adopted tails", usize::from(to - from < BLOCK));
                        for pos in from..to {
                            let slot = id.index() * BLOCK + pos % BLOCK;
                            self.memory[group.index()][slot] = Some((ticket.histories[pos], pos));
                        }
                        self.bad.remove(&(group.index(), id.index()));
                        self.totals.count("adopted blocks", 1);
                    }
                }
            }
            self.sched.take_back(seq);
            self.sched.take_back(seq);
            self.takes_its_place(seq);
            self.sched.check();
        }
    }

    /// What a sequence lacks of which a slower place has all, or most, or hardly anything.
    fn lacks(&mut self, seq: SeqId) -> Lack {
        let (seed, part) = (self.dice.next(), self.dice.roll(0, 8) as u64);
        let has = |key: &BlockKey| {
            let own = key.as_bytes().iter().fold(seed, |sum, &byte| mix(sum ^ u64::from(byte)));
            own % 8 >= part
        };
        let lack = self.sched.lack(seq, &has);
        let ticket = &self.tickets[&seq];
        assert!(
            lack.here <= lack.there
                && lack.there < ticket.tokens.len()
                && lack.blocks.is_empty() == (lack.here == lack.there)
        );
        lack
    }

    /// Brings what is lacking, as an engine does: what is here is counted as used first, then block after block is adopted and written.
    fn fetch(&mut self, seq: SeqId, early: Option<Lack>) {
        let now = early.is_none();
        let lack = early.unwrap_or_else(|| self.lacks(seq));
        self.sched.freshen(seq, lack.there);
        let all = lack.blocks.len();
        let come = if self.dice.one_in(3) { self.dice.roll(0, all) } else { all };
        let mut taken = 0;
        for &(group, index) in &lack.blocks[..come] {
            let Some(id) = self.sched.adopt(seq, group, index, lack.there) else { continue };
            taken += 1;
            for pos in index * BLOCK..lack.there.min((index + 1) * BLOCK) {
                let slot = id.index() * BLOCK + pos % BLOCK;
                self.memory[group.index()][slot] = Some((self.tickets[&seq].histories[pos], pos));
            }
            self.bad.remove(&(group.index(), id.index()));
        }
        self.sched.freshen(seq, lack.there);
        self.totals.count("fetches cut short", usize::from(come < all));
        self.totals.count("fetches of tails", usize::from(taken == all && !lack.there.is_multiple_of(BLOCK)));
        if now && all > 0 && come == all {
            // What was said to be lacking is all that was: nothing of it found no place, and nothing made room for it that counts.
            assert_eq!(taken, all, "{seq:?}: {lack:?}");
            // Along its own trail, of which a fork has only its parent's part before it starts.
            let hit = self.sched.ledger().hit_along(self.sched.trail(seq), &self.tickets[&seq].tokens);
            assert_eq!(hit, lack.there, "{seq:?}: {lack:?}");
            self.totals.count("fetches of all that was lacking", 1);
        }
    }

    /// The memory guard now and then says something new.
    fn presses(&mut self) -> Vec<Outcome> {
        if !self.dice.one_in(self.odds.pressure) {
            return Vec::new();
        }
        self.pressure = match self.dice.roll(1, 4) {
            1 => Pressure::Soft,
            2 => Pressure::Hard { rows: self.dice.roll(0, 3), used_bytes: 6, limit_bytes: 5 },
            _ => Pressure::None,
        };
        let alone = self.sched.running() == 1;
        if self.pressure != Pressure::None {
            for (group, blocks) in self.sched.give_up(matches!(self.pressure, Pressure::Hard { .. })) {
                self.totals.count("blocks given up", blocks.len());
                for id in blocks {
                    self.memory[group.index()][id.index() * BLOCK..][..BLOCK].fill(None);
                    self.bad.remove(&(group.index(), id.index()));
                }
            }
        }
        let outcomes = self.sched.press(self.pressure);
        let refuses = alone && matches!(self.pressure, Pressure::Hard { rows: 0, .. });
        assert_eq!(outcomes.len(), usize::from(refuses));
        for outcome in &outcomes {
            let Outcome::Refused { seq, why: Refused::Memory { used_bytes: 6, running: 1, .. } } = outcome else {
                panic!("{outcome:?} under pressure");
            };
            let ticket = self.tickets.remove(seq).expect("it ran");
            assert_eq!(ticket.aside_until, None);
            self.totals.count("refused while running", 1);
        }
        outcomes
    }

    fn write(&mut self, plan: &Plan) {
        for row in &plan.rows {
            for pos in row.start..row.start + row.len {
                let entry = Some((self.tickets[&row.seq].histories[pos], pos));
                for g in 0..self.reaches.len() {
                    let slot = self.slot(row.seq, g, pos);
                    self.memory[g][slot] = entry;
                    self.bad.remove(&(g, slot / BLOCK));
                }
            }
        }
    }

    pub(crate) fn slot(&self, seq: SeqId, g: usize, pos: usize) -> usize {
        let table = self.sched.ledger().table(seq, GroupId(g as u32));
        let Slot(slot) = table.slot(pos, BLOCK);
        slot as usize
    }

    /// The make-believe model: the next token follows from the history, now and then a stop.
    fn sample(&mut self, plan: &Plan) -> Vec<Sampled> {
        let wanted = plan.rows.iter().filter(|row| row.logits > 0);
        let answer = |row: &Row| {
            let history = self.tickets[&row.seq].histories[row.start + row.len - 1];
            let id = match history % 12 {
                0 => 90 + (history >> 8) as u32 % 2,
                _ => (history >> 8) as u32 % 3,
            };
            Sampled { seq: row.seq, id }
        };
        wanted.map(answer).collect()
    }

    /// Now and then logits are not numbers: nothing that the sequence holds may be given to anyone new.
    fn bad_logits(&mut self, sampled: &[Sampled]) {
        for &Sampled { seq, .. } in sampled {
            if self.dice.one_in(self.odds.bad_logits) && self.tickets.remove(&seq).is_some() {
                for group in self.groups() {
                    let table = self.sched.ledger().table(seq, group);
                    self.bad.extend(table.live().map(|id| (group.index(), id.index())));
                }
                self.sched.discard(seq);
                self.sched.check();
                self.totals.count("bad logits", 1);
            }
        }
    }

    /// A step fails: its tokens are anything, and everyone in it ends.
    fn fails(&mut self, plan: &Plan) {
        let alive: Vec<SeqId> =
            plan.rows.iter().map(|row| row.seq).filter(|seq| self.tickets.contains_key(seq)).collect();
        for row in plan.rows.iter().filter(|row| self.tickets.contains_key(&row.seq)) {
            for g in 0..self.reaches.len() {
                for pos in row.start..row.start + row.len {
                    let slot = self.slot(row.seq, g, pos);
                    self.memory[g][slot] = None;
                }
            }
        }
        assert_eq!(self.sched.fail(plan), alive);
        alive.iter().for_each(|seq| drop(self.tickets.remove(seq)));
        self.totals.count("failed steps", 1);
    }
}
