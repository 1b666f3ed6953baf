//! Taking back, branching off, and throwing away: truncate, fork and discard.
//!
//! The first two are exact or refuse and leave everything as it was: a window that has moved on cannot be moved back, and a
//! sealed block that others hold cannot be reopened.

use crate::ledger::Holding;
use crate::pool::Leave;
use crate::{GroupId, Ledger, SeqId};

/// Why a sequence could not be cut back or branched; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncut {
    /// The next token would see positions before `from`, which this group has forgotten.
    Forgotten {
        /// The group whose window has moved on.
        group: GroupId,
        /// The first position its window still holds.
        from: usize,
    },
    /// The cut is inside a sealed block that others hold too; cut at a block's edge, or open a new sequence.
    Shared {
        /// The group whose block is shared.
        group: GroupId,
    },
}

impl Ledger {
    /// Cuts a sequence back to exactly `len` tokens, or says why not. More than it has is no cut.
    ///
    /// Sealed blocks cut off stay findable. A sealed block cut in the middle becomes the open block again and loses its
    /// name, which is possible only while nobody else holds it. Cutting to where nothing forgotten is seen, to 0 at the
    /// latest, is always possible.
    pub fn truncate(&mut self, seq: SeqId, len: usize) -> Result<(), Uncut> {
        let block = self.block;
        let (holdings, groups) = self.parts(seq);
        let inside = !len.is_multiple_of(block);
        for (g, (holding, group)) in holdings.iter().zip(groups.iter()).enumerate() {
            let id = GroupId(g as u32);
            keeps(holding, id, group.reach.first_visible(len) / block..len.div_ceil(block), block)?;
            let reopened = inside && len / block < holding.keys.len();
            if reopened && group.pool.blocks[holding.block(len / block).index()].holders > 1 {
                return Err(Uncut::Shared { group: id });
            }
        }
        for (holding, group) in holdings.iter_mut().zip(groups) {
            while let Some(id) = holding.table.pop_beyond(len.div_ceil(block)) {
                group.pool.release(id, Leave::Closed);
            }
            if inside && len / block < holding.keys.len() {
                group.pool.reopen(holding.block(len / block));
            }
            holding.keys.truncate(len / block);
        }
        Ok(())
    }

    /// Opens `new` with all sealed blocks of `seq` and answers how many tokens that is.
    ///
    /// The open block is not shared: a fork begins at a sealed boundary, and `new` computes the tokens after it again.
    /// Right after the boundary this always works; later a window may have forgotten what the boundary's next token
    /// sees. Then [`open`](Self::open) the new one on a [`hit`](Self::hit), which finds what is left of the past.
    ///
    /// # Panics
    /// If `new` is open already.
    pub fn fork(&mut self, seq: SeqId, new: SeqId) -> Result<usize, Uncut> {
        assert!(!self.seqs.contains_key(&new), "{new:?} is open already");
        let block = self.block;
        let (holdings, groups) = self.parts(seq);
        let sealed = holdings[0].keys.len();
        for (g, (holding, group)) in holdings.iter().zip(groups.iter()).enumerate() {
            let first = group.reach.first_visible(sealed * block) / block;
            keeps(holding, GroupId(g as u32), first..sealed, block)?;
        }
        let mut branch = holdings.clone();
        for (holding, group) in branch.iter_mut().zip(groups) {
            while holding.table.pop_beyond(sealed).is_some() {}
            for id in holding.table.live() {
                group.pool.hold(id);
            }
        }
        self.seqs.insert(new, branch);
        Ok(sealed * block)
    }

    /// Ends a sequence whose content is not to be trusted: none of its sealed blocks is found again, those it shares and
    /// those it has forgotten included. Others that hold one keep it, but nobody new gets it.
    ///
    /// Where the content went bad is not known here, so everything the sequence has read is under suspicion: a bad block
    /// left findable would spoil every later prompt that begins alike.
    pub fn discard(&mut self, seq: SeqId) {
        let mut news = self.news.take();
        let (holdings, groups) = self.parts(seq);
        for (holding, group) in holdings.iter().zip(groups) {
            for key in holding.keys.iter().chain(&holding.tail) {
                group.pool.disown(key);
            }
            if let Some(news) = &mut news {
                news.disowned.extend(holding.keys.iter().chain(&holding.tail));
            }
        }
        self.close(seq); // while nobody listens: none of it is worth keeping
        self.news = news;
    }
}

/// Whether none of the blocks in `window` was forgotten; kept ones never are.
fn keeps(holding: &Holding, group: GroupId, window: std::ops::Range<usize>, block: usize) -> Result<(), Uncut> {
    let gap = holding.table.gap();
    if gap.start.max(window.start) < gap.end.min(window.end) {
        return Err(Uncut::Forgotten { group, from: gap.end * block });
    }
    Ok(())
}
