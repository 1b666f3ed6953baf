//! How far back a layer looks; the one definition of a window.
//!
//! Masks, forgetting, prefix hits and pool sizes all ask here, so they cannot disagree by one.

/// How far back a token sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Every token before it, and itself.
    All,
    /// Itself and the `w - 1` tokens before it; `w` is at least 1.
    Last(usize),
    /// Itself and the `last - 1` tokens before it, and the `first` tokens that the sequence begins with: those soak up
    /// attention that has nowhere else to go. `last` is at least 1.
    Keep {
        /// Tokens at the start that are never forgotten.
        first: usize,
        /// Tokens at the end, the one that looks counted.
        last: usize,
    },
}

impl Reach {
    /// Where the window of the token at `pos` begins: it sees from here to `pos` itself, and the [`kept`](Self::kept) ones.
    pub fn first_visible(&self, pos: usize) -> usize {
        match *self {
            Self::All => 0,
            Self::Last(w) | Self::Keep { last: w, .. } => (pos + 1).saturating_sub(w),
        }
    }

    /// How many tokens at the very start the token at `pos` sees besides its window: never counted twice, so 0 while
    /// the window itself begins at 0.
    pub fn kept(&self, pos: usize) -> usize {
        match *self {
            Self::All | Self::Last(_) => 0,
            Self::Keep { first, .. } => first.min(self.first_visible(pos)),
        }
    }

    /// Whether the token at `pos` sees the one at `at`.
    pub fn sees(&self, pos: usize, at: usize) -> bool {
        at <= pos && (at >= self.first_visible(pos) || at < self.kept(pos))
    }

    /// Blocks at the start of a table that are never forgotten.
    pub fn kept_blocks(&self, block: usize) -> usize {
        match *self {
            Self::All | Self::Last(_) => 0,
            Self::Keep { first, .. } => first.div_ceil(block),
        }
    }

    /// Whether block `index` is worth keeping for good, wherever its sequence goes on to: where all is seen every block is; of a window
    /// those that a prompt needs which begins like this one and parts from it after 1, 2, 4, 8 … windows, so that something is left
    /// to start from for less than a tenth of all blocks of a long text.
    pub(crate) fn worth_keeping(&self, index: usize, block: usize) -> bool {
        let (Self::Last(w) | Self::Keep { last: w, .. }) = *self else {
            return true;
        };
        let ends = std::iter::successors(Some(w), |end| end.checked_mul(2)).map(|end| end / block);
        let mut near = ends.skip_while(|&end| end <= index);
        let needed = |end: usize| index >= self.first_visible(end * block) / block;
        index < self.kept_blocks(block) || near.next().is_some_and(needed)
    }

    /// The most blocks one table holds at once while its sequence grows to `len` tokens, at most `step` tokens a step.
    ///
    /// During a step a window holds what the step's first token sees and the step itself: `w - 1 + step` tokens, which
    /// may begin anywhere in a block. Kept blocks come on top.
    pub fn peak_blocks(&self, len: usize, step: usize, block: usize) -> usize {
        let whole = len.div_ceil(block);
        match *self {
            Self::All => whole,
            Self::Last(w) | Self::Keep { last: w, .. } => {
                let span = (w - 1).saturating_add(step.max(1));
                let window = (span - 1).div_ceil(block) + 1;
                whole.min(window.saturating_add(self.kept_blocks(block)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
