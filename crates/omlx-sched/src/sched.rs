//! The scheduler's state, its door for newcomers, and questions about it.
//!
//! Every sequence is in exactly one of two lists, each in order of arrival: `running` holds blocks, `waiting` holds none.
//! Whoever runs arrived before everyone who waits, so the oldest of all never waits for anyone younger.

use std::collections::{BTreeMap, VecDeque};

use omlx_blocks::{Ledger, SeqId};

use crate::seq::Seq;
use crate::{Arrival, Config, Refused};

/// Decides which tokens of which sequence the next step computes.
#[derive(Debug)]
pub struct Sched {
    pub(crate) config: Config,
    pub(crate) ledger: Ledger,
    pub(crate) seqs: BTreeMap<SeqId, Seq>,
    pub(crate) running: Vec<SeqId>,
    pub(crate) waiting: VecDeque<SeqId>,
    /// The head of the queue did not fit, and nothing has happened since that could help it.
    pub(crate) stuck: bool,
}

impl Sched {
    /// An idle scheduler over an empty cache.
    ///
    /// # Panics
    /// If a limit is 0.
    pub fn new(config: Config, ledger: Ledger) -> Self {
        Self {
            config: config.checked(),
            ledger,
            seqs: BTreeMap::new(),
            running: Vec::new(),
            waiting: VecDeque::new(),
            stuck: false,
        }
    }

    /// Puts a sequence at the end of the queue, or says why not.
    ///
    /// # Panics
    /// If the id is in use.
    pub fn arrive(&mut self, arrival: Arrival) -> Result<(), Refused> {
        let tokens = arrival.tokens.len();
        let (context, most) = (self.config.context, self.ledger.capacity());
        let waiting = self.waiting.len();
        if tokens == 0 {
            return Err(Refused::Empty);
        }
        if tokens >= context {
            return Err(Refused::TooLong { tokens, context });
        }
        if tokens > most {
            return Err(Refused::NeverFits { tokens, most });
        }
        if waiting >= self.config.waiting {
            return Err(Refused::Full { waiting });
        }
        let seq = arrival.seq;
        let known = self.seqs.insert(seq, Seq::new(arrival));
        assert!(known.is_none(), "{seq:?} is in use");
        self.waiting.push_back(seq);
        Ok(())
    }

    /// Drops a sequence at once, wherever it is; nothing more is said about it. Unknown ones are fine.
    ///
    /// Between a plan and its settling this is fine too: the row is then ignored, its sampled token included.
    pub fn cancel(&mut self, seq: SeqId) {
        if self.seqs.remove(&seq).is_none() {
            return;
        }
        self.stuck = false;
        match self.running.iter().position(|&id| id == seq) {
            Some(at) => {
                self.running.remove(at);
                self.ledger.close(seq);
            }
            None => self.waiting.retain(|&id| id != seq),
        }
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

    /// Prompt tokens that were found in the cache when it first started; 0 before.
    ///
    /// # Panics
    /// If it is unknown.
    pub fn cached(&self, seq: SeqId) -> usize {
        self.seq(seq).cached.unwrap_or(0)
    }

    /// Whether nobody runs or waits.
    pub fn is_idle(&self) -> bool {
        self.seqs.is_empty()
    }

    /// How many sequences hold blocks.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// How many sequences hold none: new ones and parked ones.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Panics with the broken invariant, if there is one.
    pub fn check(&self) {
        self.ledger.check();
        let lists = self.running.iter().chain(&self.waiting);
        let mut ids: Vec<SeqId> = lists.copied().collect();
        ids.sort_unstable();
        assert!(ids.iter().eq(self.seqs.keys()), "each in exactly one list");
        assert!(self.running.len() <= self.config.rows, "too many rows");
        for (id, seq) in &self.seqs {
            assert!(seq.computed < seq.tokens.len(), "{id:?} wants nothing");
            let waits = self.waiting.contains(id);
            assert!(!waits || seq.computed == 0, "{id:?} waits with blocks");
        }
    }

    fn seq(&self, seq: SeqId) -> &Seq {
        let found = self.seqs.get(&seq);
        found.unwrap_or_else(|| panic!("{seq:?} is unknown"))
    }

    pub(crate) fn seq_mut(&mut self, seq: SeqId) -> &mut Seq {
        let found = self.seqs.get_mut(&seq);
        found.unwrap_or_else(|| panic!("{seq:?} is unknown"))
    }
}
