//! Several sequences in one cache without a scheduler: whoever calls decides who joins, leaves, branches off or is cut back.
//!
//! A row has tokens and a count of computed ones. What is not computed yet (a prompt that was joined, the end of a branch) rides
//! along with the row's next step. What must stay true: a row answers as if it had the cache to itself, and a move that cannot be
//! made exactly is refused and changes nothing.

use std::collections::BTreeMap;

use candle_core::Device;
use omlx_blocks::{GroupId, GroupSize, Ledger, Salt, SeqId, Uncut};

use crate::{Batch, BatchRow, Error, KvCache, KvLayout, Result};

/// A cache and the sequences in it.
///
/// Each [`step`](Self::step) names rows and their next tokens and answers the batch to run; it has to be run before the next
/// call. If running it fails, the rows in it are to be [discarded](Self::discard).
#[derive(Debug)]
pub struct Rows {
    cache: KvCache,
    ledger: Ledger,
    rows: BTreeMap<SeqId, Row>,
    joined: u64,
    context: usize,
}

/// What one row feeds into a step.
#[derive(Clone, Copy, Debug)]
pub struct Feed<'a> {
    /// The row.
    pub row: SeqId,
    /// Its next tokens; none where some of its tokens are [pending](Rows::pending).
    pub tokens: &'a [u32],
    /// How many of its last tokens want logits.
    pub logits: usize,
}

#[derive(Debug, Default)]
struct Row {
    tokens: Vec<u32>,
    /// Tokens whose keys and values are in the cache, once the last batch has run.
    computed: usize,
}

impl Rows {
    /// Room for `rows` sequences of `context` tokens, in blocks of `block`. Where rows share beginnings more of them fit.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn new(layout: KvLayout, rows: usize, context: usize, block: usize, device: &Device) -> Result<Self> {
        let blocks = (context.div_ceil(block) * rows).max(1);
        let sizes: Vec<GroupSize> = layout.groups.iter().map(|g| GroupSize { reach: g.reach, blocks }).collect();
        let cache = KvCache::new(layout, &sizes, block, device)?;
        let ledger = Ledger::new(block, &sizes, Salt::of(&[]));
        Ok(Self { cache, ledger, rows: BTreeMap::new(), joined: 0, context })
    }

    /// The tensors.
    pub fn cache(&self) -> &KvCache {
        &self.cache
    }

    /// Who holds which block.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// All tokens of a row so far.
    ///
    /// # Panics
    /// If the row is not here.
    pub fn tokens(&self, row: SeqId) -> &[u32] {
        &self.row(row).tokens
    }

    /// How many of a row's tokens are not computed yet; its next step computes them.
    ///
    /// # Panics
    /// If the row is not here.
    pub fn pending(&self, row: SeqId) -> usize {
        let row = self.row(row);
        row.tokens.len() - row.computed
    }

    /// A new row that begins with `tokens`. Whole blocks that the cache still has of them are not computed again; at least one token
    /// is.
    ///
    /// # Errors
    /// [`Error::Context`] when they are more than a row may have.
    pub fn join(&mut self, tokens: &[u32]) -> Result<SeqId> {
        self.fits(tokens.len())?;
        self.seal_all();
        let id = self.next_id();
        self.open(id, tokens.to_vec());
        Ok(id)
    }

    /// A new row with the tokens of another one. Sealed blocks are shared; what stands in the open block is pending in the new
    /// row. Where a window has moved past the last sealed block, more is pending: as much as the cache cannot find.
    ///
    /// # Panics
    /// If the row is not here.
    pub fn fork(&mut self, row: SeqId) -> SeqId {
        self.seal_all();
        let tokens = self.row(row).tokens.clone();
        let id = self.next_id();
        match self.ledger.fork(row, id) {
            Ok(computed) => {
                self.rows.insert(id, Row { tokens, computed });
            }
            Err(Uncut::Forgotten { .. } | Uncut::Shared { .. }) => self.open(id, tokens),
        }
        id
    }

    /// Cuts a row back to exactly its first `len` tokens; with as many as it has, nothing happens.
    ///
    /// Before the next call after a step, what that step fed can always be taken back.
    ///
    /// # Errors
    /// [`Error::Forgotten`] when a window has moved on, [`Error::Shared`] when the cut is inside a block that others hold too. The row is
    /// unchanged then, and [`join`](Self::join) with the tokens that are left always works.
    ///
    /// # Panics
    /// If the row is not here.
    pub fn truncate(&mut self, row: SeqId, len: usize) -> Result<()> {
        let block = self.ledger.block();
        if len < self.row(row).computed {
            // Not sealed before: sealing is what makes windows forget.
            self.ledger.truncate(row, len).map_err(|uncut| match uncut {
                Uncut::Forgotten { from, .. } => Error::Forgotten { len, from },
                Uncut::Shared { .. } => Error::Shared { len, block },
            })?;
        }
        let row = self.row_mut(row);
        row.tokens.truncate(len);
        row.computed = row.computed.min(len);
        Ok(())
    }

    /// Ends a row. Its sealed blocks can be found by those who join with the same beginning, until their room is needed.
    ///
    /// # Panics
    /// If the row is not here.
    pub fn leave(&mut self, row: SeqId) {
        self.seal_all();
        self.ledger.close(row);
        self.rows.remove(&row);
    }

    /// Ends a row whose last batch failed, or whose numbers are not to be trusted: none of its blocks is found again.
    ///
    /// # Panics
    /// If the row is not here.
    pub fn discard(&mut self, row: SeqId) {
        self.ledger.discard(row);
        self.rows.remove(&row);
    }

    /// The batch of the next tokens of these rows, each named once, in this order: what is pending first, then what is fed.
    ///
    /// # Errors
    /// [`Error::Context`] when a row would outgrow its context, [`Error::Full`] when there are not enough blocks. No row is changed
    /// then.
    ///
    /// # Panics
    /// If a row is not here, is named twice or has nothing to compute, or more logits are wanted than tokens are computed.
    pub fn step(&mut self, feeds: &[Feed<'_>]) -> Result<Batch> {
        for (i, feed) in feeds.iter().enumerate() {
            assert!(feeds[..i].iter().all(|other| other.row != feed.row), "{:?} is named twice", feed.row);
            assert!(self.pending(feed.row) + feed.tokens.len() > 0, "{:?} has nothing to compute", feed.row);
            self.fits(self.row(feed.row).tokens.len() + feed.tokens.len())?;
        }
        self.seal_all();
        for (i, feed) in feeds.iter().enumerate() {
            let tokens = self.row(feed.row).tokens.len() + feed.tokens.len();
            if self.ledger.grow(feed.row, tokens).is_err() {
                self.shrink(&feeds[..i]);
                return Err(Error::Full { tokens });
            }
        }
        for feed in feeds {
            self.row_mut(feed.row).tokens.extend_from_slice(feed.tokens);
        }
        let batch = self.batch(feeds);
        for feed in feeds {
            let row = self.row_mut(feed.row);
            row.computed = row.tokens.len();
        }
        Ok(batch)
    }

    fn batch(&self, feeds: &[Feed<'_>]) -> Batch {
        let groups = self.ledger.groups();
        let rows: Vec<BatchRow<'_>> = feeds
            .iter()
            .map(|feed| {
                let row = self.row(feed.row);
                BatchRow {
                    tokens: &row.tokens[row.computed..],
                    start: row.computed,
                    logits: feed.logits,
                    tables: (0..groups as u32).map(|g| self.ledger.table(feed.row, GroupId(g))).collect(),
                }
            })
            .collect();
        Batch::new(&rows, groups, self.ledger.block())
    }

    /// Gives back what a step has taken that cannot be made.
    fn shrink(&mut self, feeds: &[Feed<'_>]) {
        for feed in feeds {
            let computed = self.row(feed.row).computed;
            let cut = self.ledger.truncate(feed.row, computed);
            assert!(cut.is_ok(), "{:?} has only grown since it was sealed", feed.row);
        }
    }

    /// Publishes full blocks and lets windows forget, now that the last batch has run.
    fn seal_all(&mut self) {
        for (id, row) in &self.rows {
            self.ledger.seal(*id, &row.tokens, row.computed);
        }
    }

    fn open(&mut self, id: SeqId, tokens: Vec<u32>) {
        let computed = self.ledger.hit(&tokens);
        self.ledger.open(id, &tokens, computed);
        self.rows.insert(id, Row { tokens, computed });
    }

    fn fits(&self, tokens: usize) -> Result<()> {
        let context = self.context;
        if tokens > context { Err(Error::Context { tokens, context }) } else { Ok(()) }
    }

    fn next_id(&mut self) -> SeqId {
        self.joined += 1;
        SeqId(self.joined)
    }

    fn row(&self, row: SeqId) -> &Row {
        self.rows.get(&row).unwrap_or_else(|| panic!("{row:?} is not here"))
    }

    fn row_mut(&mut self, row: SeqId) -> &mut Row {
        self.rows.get_mut(&row).unwrap_or_else(|| panic!("{row:?} is not here"))
    }
}
