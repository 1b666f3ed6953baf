//! What a token costs by where it stands: the further back it has to look, the more.
//!
//! The unit is a token at the start of a text, so a cost is what a chunk there of so many tokens would take.

/// Prices tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Positions back that cost as much as all else of a token.
    depth: usize,
}

impl Cost {
    /// See [`Target::depth`](crate::Target::depth).
    pub(crate) fn new(depth: usize) -> Self {
        Self { depth: depth.max(1) }
    }

    /// Of `len` tokens from position `start` on.
    pub(crate) fn of(self, start: usize, len: usize) -> usize {
        // twice the positions that these tokens look back at
        let looks = (len as u128).saturating_mul(2 * start as u128 + len as u128);
        len.saturating_add(usize::try_from(looks / (2 * self.depth as u128)).unwrap_or(usize::MAX))
    }

    /// The most tokens from `start` on, at most `most`, that cost at most `budget`.
    pub(crate) fn fit(self, start: usize, most: usize, budget: usize) -> usize {
        // a token costs at least 1
        let (mut fits, mut over) = (0, most.min(budget) + 1);
        while over - fits > 1 {
            let middle = fits.midpoint(over);
            if self.of(start, middle) <= budget {
                fits = middle;
            } else {
                over = middle;
            }
        }
        fits
    }
}

#[cfg(test)]
mod tests;
