//! What a ledger tells slower places: which names are worth keeping, which are not to be trusted, and which blocks lose their place.
//!
//! Nothing is noted before somebody [listens](Ledger::listen), and whoever does has to ask again and again: what is not asked for piles
//! up. All of it is advice. A name may be gone by the time it is read, and may come twice.

use crate::hit::Needed;
use crate::{BlockId, BlockKey, GroupId, Ledger, SeqId, Trail};

/// What happened to names since somebody asked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Blocks that a later prompt can start from, parents before children: of groups that see everything all that were sealed, of
    /// windows those at the end of a prompt or an answer, and some on the way.
    pub kept: Vec<(GroupId, BlockKey)>,
    /// Names of content that is not to be trusted.
    pub disowned: Vec<BlockKey>,
}

/// A block that lost its place to another. Its content stands there until the next step writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its group.
    pub group: GroupId,
    /// Its place.
    pub block: BlockId,
    /// Its name.
    pub key: BlockKey,
    /// The name of the block before it.
    pub parent: BlockKey,
    /// Its tokens.
    pub tokens: Box<[u32]>,
    /// Whether a window had left it behind.
    pub behind: bool,
}

/// A block by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its place.
    pub block: BlockId,
    /// The name of the block before it.
    pub parent: BlockKey,
    /// Its tokens.
    pub tokens: &'a [u32],
}

impl Ledger {
    /// Notes what happens to names and blocks from now on.
    pub fn listen(&mut self) {
        self.news.get_or_insert_default();
        for group in &mut self.groups {
            group.pool.evicted.get_or_insert_default();
        }
    }

    /// What happened to names since this was asked last; nothing where nobody [listens](Self::listen).
    pub fn news(&mut self) -> News {
        self.news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What lost its place since this was asked last, in the order in which it did. To be asked before anything is written.
    pub fn evicted(&mut self) -> Vec<Evicted> {
        let mut all = Vec::new();
        for (g, group) in self.groups.iter_mut().enumerate() {
            let evicted = group.pool.evicted.as_mut().map(std::mem::take).unwrap_or_default();
            all.extend(evicted.into_iter().map(|gone| Evicted {
                group: GroupId(g as u32),
                block: gone.id,
                key: gone.name.key,
                parent: gone.name.parent,
                tokens: gone.name.tokens,
                behind: gone.behind,
            }));
        }
        all
    }

    /// Gives up every block that nobody holds, as if its place were needed: those worth least first.
    pub fn retire(&mut self) {
        for group in &mut self.groups {
            group.pool.retire();
        }
    }

    /// The block of this name, if it is here.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn named(&self, group: GroupId, key: &BlockKey) -> Option<Named<'_>> {
        let pool = &self.groups[group.index()].pool;
        let block = *pool.names.get(key)?;
        let name = pool.blocks[block.index()].name.as_ref()?;
        Some(Named { block, parent: name.parent, tokens: &name.tokens })
    }

    /// Makes the block of this name impossible to find: its content did not come.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn disown(&mut self, group: GroupId, key: &BlockKey) {
        self.groups[group.index()].pool.disown(key);
    }

    /// Counts what is here of a prefix as used now, its tail first and its beginning last, so that that goes last. What a window has no
    /// use for at that length is left as it is: it must not outlive what is of use.
    ///
    /// # Panics
    /// If the trail is shorter.
    pub fn freshen(&mut self, trail: &Trail, tokens: &[u32]) {
        let blocks = tokens.len() / self.block;
        let rest = &tokens[blocks * self.block..];
        for g in 0..self.groups.len() {
            let Needed { kept, window } = self.needed(&self.groups[g], blocks);
            let tail = (!rest.is_empty()).then(|| self.key(GroupId(g as u32), trail, blocks, rest));
            let (keys, pool) = (&trail.keys(GroupId(g as u32))[..blocks], &mut self.groups[g].pool);
            tail.iter().for_each(|key| pool.freshen(key));
            for key in keys[window..].iter().rev().chain(keys[..kept].iter().rev()) {
                pool.freshen(key);
            }
        }
    }

    /// Says that a later prompt may well begin with this sequence's first `len` tokens, or go as far as it is now: what those see that
    /// come after the whole blocks of either is worth keeping, also what a window has moved past.
    ///
    /// # Panics
    /// If the sequence is not open.
    pub fn anchor(&mut self, seq: SeqId, len: usize) {
        let holdings = self.holdings(seq);
        let mut windows = Vec::new();
        for (g, (holding, group)) in holdings.iter().zip(&self.groups).enumerate() {
            // Where all is seen every block was named when it was sealed.
            if group.reach != crate::Reach::All {
                let from = self.needed(group, holding.keys.len().min(len / self.block)).window;
                windows.extend(holding.keys[from..].iter().map(|key| (GroupId(g as u32), *key)));
            }
        }
        for (group, key) in windows.iter().rev() {
            self.groups[group.index()].pool.freshen(key);
        }
        if let Some(news) = &mut self.news {
            news.kept.extend(windows);
        }
    }
}

#[cfg(test)]
mod tests;
