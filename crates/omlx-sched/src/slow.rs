//! Slower places: what they are told of the ledger, and what they bring back.

use omlx_blocks::{BlockId, BlockKey, Evicted, GroupId, Lack, Named, News, SeqId};

use crate::Sched;

impl Sched {
    /// Notes from now on what slower places want to know; see [`Ledger::listen`](omlx_blocks::Ledger::listen).
    pub fn listen(&mut self) {
        self.ledger.listen();
    }

    /// See [`Ledger::news`](omlx_blocks::Ledger::news).
    pub fn news(&mut self) -> News {
        self.ledger.news()
    }

    /// See [`Ledger::evicted`](omlx_blocks::Ledger::evicted): to be asked after a plan and after each block that was adopted.
    pub fn evicted(&mut self) -> Vec<Evicted> {
        self.ledger.evicted()
    }

    /// Gives up every block that nobody holds, to be told of by [`evicted`](Self::evicted): for the end of an engine.
    pub fn retire(&mut self) {
        self.ledger.retire();
    }

    /// The block of this name, if it is here; see [`Ledger::named`](omlx_blocks::Ledger::named).
    ///
    /// # Panics
    /// If there is no such group.
    pub fn named(&self, group: GroupId, key: &BlockKey) -> Option<Named<'_>> {
        self.ledger.named(group, key)
    }

    /// What a waiting sequence lacks that slower places have; see [`Ledger::lack`](omlx_blocks::Ledger::lack).
    ///
    /// # Panics
    /// If the sequence is unknown.
    pub fn lack(&self, seq: SeqId, elsewhere: &dyn Fn(&BlockKey) -> bool) -> Lack {
        let own = self.seq(seq);
        self.ledger.lack(&own.trail, &own.tokens, elsewhere)
    }

    /// A place for block `index` of the first `len` tokens of a sequence, which was fetched, findable from now on; see
    /// [`Ledger::adopt`](omlx_blocks::Ledger::adopt). Only between two steps.
    ///
    /// # Panics
    /// If the sequence is unknown, or there is no such group or block.
    pub fn adopt(&mut self, seq: SeqId, group: GroupId, index: usize, len: usize) -> Option<BlockId> {
        let own = self.seqs.get(&seq);
        let own = own.unwrap_or_else(|| panic!("{seq:?} is unknown"));
        let block = self.ledger.block();
        let tokens = &own.tokens[index * block..len.min((index + 1) * block)];
        let adopted = self.ledger.adopt(group, &own.trail, index, tokens);
        self.stuck &= adopted.is_none();
        adopted
    }

    /// Makes a block impossible to find whose content did not come; see [`Ledger::disown`](omlx_blocks::Ledger::disown).
    ///
    /// # Panics
    /// If there is no such group.
    pub fn disown(&mut self, group: GroupId, key: &BlockKey) {
        self.ledger.disown(group, key);
    }

    /// Counts what is here of the first `len` tokens of a sequence's prompt as used now; see
    /// [`Ledger::freshen`](omlx_blocks::Ledger::freshen).
    ///
    /// # Panics
    /// If the sequence is unknown, or its prompt is shorter.
    pub fn freshen(&mut self, seq: SeqId, len: usize) {
        let own = self.seqs.get(&seq);
        let own = own.unwrap_or_else(|| panic!("{seq:?} is unknown"));
        self.ledger.freshen(&own.trail, &own.tokens[..len]);
    }
}
