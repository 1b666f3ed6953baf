//! A small engine around the scheduler: memory, a make-believe model, and what must be true after each step.

use std::collections::BTreeMap;

use omlx_blocks::{GroupId, GroupSize, Ledger, Reach, Salt, SeqId, Slot};
use omlx_sched::{Arrival, Config, Finish, Outcome, Plan, Refused, Row, Sampled, Sched};

const BLOCK: usize = 4;

/// SplitMix64: small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number in `low..=high`.
    fn roll(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.roll(1, n) == 1
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// What the world knows about one sequence.
struct Ticket {
    tokens: Vec<u32>,
    /// `histories[p]` stands for everything up to and including position `p`.
    histories: Vec<u64>,
    prompt: usize,
    limit: usize,
    stop: Vec<u32>,
    /// `None` while it holds no blocks.
    computed: Option<usize>,
    /// The step by which it must have ended.
    deadline: usize,
}

impl Ticket {
    fn push(&mut self, token: u32) {
        let before = self.histories.last().copied().unwrap_or(1);
        self.histories.push(mix(before ^ (u64::from(token) << 32)));
        self.tokens.push(token);
    }

    /// The most steps it can need once it is the oldest: one token in each.
    fn work(&self) -> usize {
        self.prompt + self.limit
    }
}

/// How often the interesting things happened, so that a green run is known to have tested them.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) done: usize,
    pub(crate) cancelled: usize,
    pub(crate) parked: usize,
    pub(crate) cached: usize,
    pub(crate) comebacks: usize,
    pub(crate) forgotten: usize,
    pub(crate) stops: usize,
    pub(crate) lengths: usize,
    pub(crate) pool_ends: usize,
    pub(crate) refused: [usize; 4],
}

impl Totals {
    pub(crate) fn add(&mut self, run: &Totals) {
        self.done += run.done;
        self.cancelled += run.cancelled;
        self.parked += run.parked;
        self.cached += run.cached;
        self.comebacks += run.comebacks;
        self.forgotten += run.forgotten;
        self.stops += run.stops;
        self.lengths += run.lengths;
        self.pool_ends += run.pool_ends;
        for (sum, more) in self.refused.iter_mut().zip(run.refused) {
            *sum += more;
        }
    }

    pub(crate) fn everything_happened(&self) {
        let counts = [
            ("done", self.done),
            ("cancelled", self.cancelled),
            ("parked", self.parked),
            ("cached", self.cached),
            ("comebacks through prefix keys", self.comebacks),
            ("forgotten", self.forgotten),
            ("stops", self.stops),
            ("lengths", self.lengths),
            ("ends at the pool's limit", self.pool_ends),
            ("full", self.refused[0]),
            ("empty", self.refused[1]),
            ("too long", self.refused[2]),
            ("never fits", self.refused[3]),
        ];
        for (what, count) in counts {
            assert!(count >= 100, "{what}: only {count} times");
        }
    }
}

pub(crate) struct World {
    dice: Dice,
    sched: Sched,
    config: Config,
    reaches: Vec<Reach>,
    memory: Vec<Vec<Option<(u64, usize)>>>,
    tickets: BTreeMap<SeqId, Ticket>,
    next: u64,
    step: usize,
    cancel_odds: usize,
    pub(crate) steps_with_arrivals: usize,
    pub(crate) totals: Totals,
    /// All plans and outcomes, to compare two runs.
    pub(crate) trace: Vec<(Plan, Vec<Outcome>)>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice(mix(seed));
        let reaches: Vec<Reach> = (0..dice.roll(1, 3))
            .map(|_| match dice.one_in(3) {
                true => Reach::All,
                false => Reach::Last(dice.roll(1, 11)),
            })
            .collect();
        let sizes: Vec<GroupSize> =
            reaches.iter().map(|&reach| GroupSize { reach, blocks: dice.roll(1, 14) }).collect();
        let config = Config {
            step_tokens: dice.roll(1, 20),
            rows: dice.roll(1, 6),
            chunk_tokens: dice.roll(1, 12),
            waiting: dice.roll(1, 8),
            context: dice.roll(8, 60),
        };
        let memory = sizes.iter().map(|size| vec![None; size.blocks * BLOCK]);
        Self {
            memory: memory.collect(),
            sched: Sched::new(config, Ledger::new(BLOCK, &sizes, Salt::of(&[]))),
            config,
            reaches,
            tickets: BTreeMap::new(),
            next: 0,
            step: 0,
            cancel_odds: dice.roll(10, 60),
            steps_with_arrivals: dice.roll(10, 60),
            totals: Totals::default(),
            trace: Vec::new(),
            dice,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        assert_eq!(self.sched.is_idle(), self.tickets.is_empty());
        self.sched.is_idle()
    }

    pub(crate) fn arrivals(&mut self) {
        while self.dice.one_in(3) {
            self.next += 1;
            let seq = SeqId(self.next);
            // Few beginnings and few tokens, so that prompts share prefixes of every length.
            let shared = self.dice.roll(0, 24);
            let mut tokens: Vec<u32> = (0..shared as u32).map(|p| p % 3).collect();
            for _ in 0..self.dice.roll(0, 8) {
                tokens.push(self.dice.roll(0, 2) as u32);
            }
            let arrival = Arrival {
                seq,
                limit: self.dice.roll(1, 20),
                stop: (0..self.dice.roll(0, 2) as u32).map(|s| 90 + s).collect(),
                tokens,
            };
            let answer = self.sched.arrive(arrival.clone());
            self.took_or_refused(arrival, answer);
        }
    }

    fn took_or_refused(&mut self, arrival: Arrival, answer: Result<(), Refused>) {
        let tokens = arrival.tokens.len();
        match answer {
            Err(Refused::Full { waiting }) => {
                assert!(waiting >= self.config.waiting && waiting == self.sched.waiting());
                self.totals.refused[0] += 1;
            }
            Err(Refused::Empty) => {
                assert_eq!(tokens, 0);
                self.totals.refused[1] += 1;
            }
            Err(Refused::TooLong { context, .. }) => {
                assert!(tokens >= context && context == self.config.context);
                self.totals.refused[2] += 1;
            }
            Err(Refused::NeverFits { most, .. }) => {
                assert!(tokens > most && most == self.sched.ledger().capacity());
                self.totals.refused[3] += 1;
            }
            Ok(()) => {
                let mut ticket = Ticket {
                    tokens: Vec::new(),
                    histories: Vec::new(),
                    prompt: tokens,
                    limit: arrival.limit,
                    stop: arrival.stop,
                    computed: None,
                    deadline: 0,
                };
                arrival.tokens.iter().for_each(|&token| ticket.push(token));
                // The oldest alive moves in every step; so all before it, then it, take at most this long.
                let ahead: usize = self.tickets.values().map(Ticket::work).sum();
                ticket.deadline = self.step + ahead + ticket.work();
                self.tickets.insert(arrival.seq, ticket);
            }
        }
    }

    pub(crate) fn cancels(&mut self) {
        if self.dice.one_in(self.cancel_odds) && self.next > 0 {
            // Sometimes one that never came or has ended.
            let seq = SeqId(self.dice.roll(1, self.next as usize) as u64);
            self.sched.cancel(seq);
            self.sched.cancel(seq);
            self.totals.cancelled += usize::from(self.tickets.remove(&seq).is_some());
            self.sched.check();
        }
    }

    pub(crate) fn step(&mut self) {
        self.step += 1;
        let plan = self.sched.plan();
        self.sched.check();
        self.plan_is_fair(&plan);
        self.rows_are_in_turn(&plan);
        self.write(&plan);
        for row in &plan.rows {
            (row.start..row.start + row.len).for_each(|pos| self.reads_its_past(row.seq, pos));
        }
        let sampled = self.sample(&plan);
        self.cancels();
        let outcomes = self.sched.settle(&plan, &sampled);
        self.sched.check();
        self.book(&plan, &sampled, &outcomes);
        for (seq, ticket) in &self.tickets {
            assert!(self.step < ticket.deadline, "{seq:?} starves");
            assert_eq!(self.sched.tokens(*seq), ticket.tokens);
        }
        self.trace.push((plan, outcomes));
    }

    /// Limits kept; the oldest moves; one-token rows come first, oldest first, and nobody's is left out.
    fn plan_is_fair(&mut self, plan: &Plan) {
        let total: usize = plan.rows.iter().map(|row| row.len).sum();
        assert!(total <= self.config.step_tokens && plan.rows.len() <= self.config.rows);
        if let Some((oldest, _)) = self.tickets.first_key_value() {
            assert!(plan.rows.iter().any(|row| row.seq == *oldest), "{oldest:?} stands still");
        }
        for parked in &plan.parked {
            let ticket = self.tickets.get_mut(parked).expect("alive");
            assert!(ticket.computed.take().is_some(), "{parked:?} parked but not running");
            self.totals.parked += 1;
        }
        // 0: one token of those already running; 1: those catching up; 2: newcomers.
        let rank = |seq: &SeqId, ticket: &Ticket| match ticket.computed {
            Some(computed) if computed + 1 == ticket.tokens.len() => (0, *seq),
            Some(_) => (1, *seq),
            None => (2, *seq),
        };
        let ranks: Vec<_> = plan.rows.iter().map(|row| rank(&row.seq, &self.tickets[&row.seq])).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "out of order: {ranks:?}");
        let planned = ranks.iter().filter(|rank| rank.0 == 0).count();
        let decoding = self.tickets.iter().filter(|(seq, ticket)| rank(seq, ticket).0 == 0);
        assert_eq!(planned, decoding.count(), "a decoding row waits");
    }

    /// Each row goes on exactly where its sequence stopped, or at what the cache knew of it.
    fn rows_are_in_turn(&mut self, plan: &Plan) {
        for row in &plan.rows {
            let ticket = self.tickets.get_mut(&row.seq).expect("alive");
            let (end, all) = (row.start + row.len, ticket.tokens.len());
            assert!(row.len >= 1 && row.len <= self.config.chunk_tokens && end <= all);
            assert_eq!(row.logits, usize::from(end == all));
            match ticket.computed {
                Some(computed) => assert_eq!(row.start, computed, "{row:?} out of turn"),
                None => {
                    assert!(row.start.is_multiple_of(BLOCK) && row.start < all);
                    let cached = self.sched.cached(row.seq);
                    assert!(cached < ticket.prompt);
                    if all == ticket.prompt && cached == row.start {
                        self.totals.cached += usize::from(cached > 0);
                    } else {
                        self.totals.comebacks += usize::from(row.start > 0);
                    }
                }
            }
            ticket.computed = Some(end);
        }
    }

    fn write(&mut self, plan: &Plan) {
        for row in &plan.rows {
            for pos in row.start..row.start + row.len {
                let entry = Some((self.tickets[&row.seq].histories[pos], pos));
                for g in 0..self.reaches.len() {
                    let slot = self.slot(row.seq, g, pos);
                    self.memory[g][slot] = entry;
                }
            }
        }
    }

    fn slot(&self, seq: SeqId, g: usize, pos: usize) -> usize {
        let table = self.sched.ledger().table(seq, GroupId(g as u32));
        let Slot(slot) = table.slot(pos, BLOCK);
        slot as usize
    }

    /// Everything the token at `pos` sees, itself included, is its own history.
    fn reads_its_past(&self, seq: SeqId, pos: usize) {
        for (g, &reach) in self.reaches.iter().enumerate() {
            for p in 0..=pos {
                let seen = match reach {
                    Reach::All => true,
                    Reach::Last(w) => p + w > pos,
                };
                if seen {
                    let entry = self.memory[g][self.slot(seq, g, p)];
                    let own = Some((self.tickets[&seq].histories[p], p));
                    assert_eq!(entry, own, "{seq:?} at {pos} sees {p} in group {g}");
                }
            }
        }
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

    /// The outcomes are exactly those that the rules give, once each.
    fn book(&mut self, plan: &Plan, sampled: &[Sampled], outcomes: &[Outcome]) {
        let mut expected = Vec::new();
        let most = self.sched.ledger().capacity();
        for &Sampled { seq, id } in sampled {
            // Cancelled while the step ran: nothing more is said.
            let Some(ticket) = self.tickets.get_mut(&seq) else {
                continue;
            };
            let why = if ticket.stop.contains(&id) {
                self.totals.stops += 1;
                Some(Finish::Stop)
            } else {
                ticket.push(id);
                expected.push(Outcome::Token { seq, id });
                let limit = ticket.tokens.len() - ticket.prompt == ticket.limit;
                let context = ticket.tokens.len() == self.config.context;
                let pool = ticket.tokens.len() > most;
                self.totals.pool_ends += usize::from(pool && !limit && !context);
                (limit || context || pool).then_some(Finish::Length)
            };
            if let Some(why) = why {
                expected.push(Outcome::Done { seq, why });
                self.tickets.remove(&seq);
                self.totals.done += 1;
                self.totals.lengths += usize::from(why == Finish::Length);
            }
        }
        assert_eq!(outcomes, expected);
        for row in &plan.rows {
            if self.tickets.contains_key(&row.seq) {
                let tables =
                    (0..self.reaches.len() as u32).map(|g| self.sched.ledger().table(row.seq, GroupId(g)).forgotten());
                self.totals.forgotten += tables.sum::<usize>();
            }
        }
    }

    pub(crate) fn nothing_is_left(&self) {
        let ledger = self.sched.ledger();
        for group in (0..self.reaches.len() as u32).map(GroupId) {
            assert_eq!(ledger.free_blocks(group), ledger.blocks(group), "a block is lost");
        }
    }
}
