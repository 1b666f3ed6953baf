//! The scheduler's state, and questions about it.
//!
//! Every sequence is in exactly one of three places: `running` holds blocks, `waiting` and `aside` hold none. The first two are in
//! order of rank. Once a plan is made, whoever runs is older than everyone who waits, so the oldest of all never waits for
//! anyone younger.

use std::collections::{BTreeMap, BTreeSet};

use omlx_blocks::{Ledger, SeqId, Trail};

use crate::cost::Cost;
use crate::pace::{Pace, Target};
use crate::rank::{Order, Rank};
use crate::seq::Seq;
use crate::{Config, Plan, Pressure};

/// Decides which tokens of which sequence the next step computes.
#[derive(Debug)]
pub struct Sched {
    pub(crate) config: Config,
    pub(crate) ledger: Ledger,
    pub(crate) order: Order,
    /// For steps in which somebody decodes, and for others.
    pub(crate) pace: Pace,
    pub(crate) idle_pace: Pace,
    pub(crate) cost: Cost,
    pub(crate) pressure: Pressure,
    pub(crate) seqs: BTreeMap<SeqId, Seq>,
    pub(crate) running: BTreeMap<Rank, SeqId>,
    pub(crate) waiting: BTreeMap<Rank, SeqId>,
    /// Their prefixes are being fetched.
    pub(crate) aside: BTreeSet<SeqId>,
    /// The head of the queue did not fit, and nothing has happened since that could help it.
    pub(crate) stuck: bool,
}

impl Sched {
    /// An idle scheduler over an empty cache.
    ///
    /// # Panics
    /// If a limit is 0.
    pub fn new(config: Config, ledger: Ledger) -> Self {
        let config = config.checked();
        let cost = Cost::new(config.target.map_or(usize::MAX, |target| target.depth));
        // A full step at the end of the longest prompt: where there is time for it, only its tokens are a limit.
        let longest = config.context.min(ledger.capacity());
        let most = cost.of(longest.saturating_sub(config.step_tokens), config.step_tokens);
        let pace = |micros: fn(Target) -> u64| {
            Pace::new(config.target.map(micros), config.chunk_tokens, [config.min_chunk(), most])
        };
        Self {
            order: Order::new(config.head_start),
            pace: pace(|target| target.micros),
            idle_pace: pace(|target| target.idle_micros.max(target.micros)),
            cost,
            pressure: Pressure::None,
            config,
            ledger,
            seqs: BTreeMap::new(),
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            aside: BTreeSet::new(),
            stuck: false,
        }
    }

    /// How long the step of this plan took, with all that lay between the step before and it; sets the size of the next chunks.
    pub fn took(&mut self, plan: &Plan, micros: u64) {
        let cost = plan.chunk_rows().map(|row| self.cost.of(row.start, row.len)).sum();
        self.pace.learn(cost, micros);
        self.idle_pace.learn(cost, micros);
    }

    /// The most prompt tokens that the next step takes if somebody decodes in it, counted as if all stood at the start of a
    /// text; see [`Target::depth`].
    pub fn chunk(&self) -> usize {
        self.pace.chunk()
    }

    /// Who holds which block. After a plan, the tables of its rows have room for all its tokens.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// All tokens of a sequence, prompt first.
    ///
    /// # Panics
    /// If it is unknown; a sequence is forgotten when it is cancelled or `settle` says that it is done.
    pub fn tokens(&self, seq: SeqId) -> &[u32] {
        &self.seq(seq).tokens
    }

    /// How many of its tokens were the prompt.
    ///
    /// # Panics
    /// If it is unknown.
    pub fn prompt_len(&self, seq: SeqId) -> usize {
        self.seq(seq).prompt
    }

    /// Prompt tokens that were found in the cache when its first row was planned; 0 before.
    ///
    /// # Panics
    /// If it is unknown.
    pub fn cached(&self, seq: SeqId) -> usize {
        self.seq(seq).cached.unwrap_or(0)
    }

    /// The names of the prompt's blocks, to ask slower places for.
    ///
    /// # Panics
    /// If it is unknown.
    pub fn trail(&self, seq: SeqId) -> &Trail {
        &self.seq(seq).trail
    }

    /// Whether nobody runs, waits or is set aside.
    pub fn is_idle(&self) -> bool {
        self.seqs.is_empty()
    }

    /// Whether the next plan has rows. Where nobody may run although somebody is here, all are set aside.
    pub fn may_run(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// How many sequences hold blocks.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// How many sequences hold none: new ones, parked ones and those set aside.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.aside.len()
    }

    /// Panics with the broken invariant, if there is one.
    pub fn check(&self) {
        self.ledger.check();
        for (list, name) in [(&self.running, "running"), (&self.waiting, "waiting")] {
            for (rank, seq) in list {
                assert_eq!(self.seq(*seq).rank, *rank, "{seq:?} is {name} in another's place");
            }
        }
        let lists = self.running.values().chain(self.waiting.values()).chain(&self.aside);
        let mut ids: Vec<SeqId> = lists.copied().collect();
        ids.sort_unstable();
        assert!(ids.iter().eq(self.seqs.keys()), "each in exactly one place");
        assert!(self.running.len() <= self.config.rows, "too many rows");
        for (id, seq) in &self.seqs {
            assert!(seq.computed < seq.tokens.len(), "{id:?} wants nothing");
            let runs = self.running.contains_key(&seq.rank);
            assert!(runs || (seq.computed == 0 && !seq.fresh), "{id:?} waits with blocks");
        }
    }

    pub(crate) fn seq(&self, seq: SeqId) -> &Seq {
        let found = self.seqs.get(&seq);
        found.unwrap_or_else(|| panic!("{seq:?} is unknown"))
    }

    pub(crate) fn seq_mut(&mut self, seq: SeqId) -> &mut Seq {
        let found = self.seqs.get_mut(&seq);
        found.unwrap_or_else(|| panic!("{seq:?} is unknown"))
    }
}
