//! How a step's prompt tokens are divided among those catching up.
//!
//! The oldest gets at least half, so it is never slowed to less than half its speed and everyone's time comes. Up to half
//! goes to prompts that are short, shortest first: those that fit into that half whole, and those at most half as long as what
//! the oldest still has to read. What is left goes down the line, oldest first. Nothing is wasted, so any number of prompts takes
//! the time of their sum; of two equally long ones the first answers in half of that and the second no later than it would
//! otherwise. Half as long is where taking turns begins to pay: the short one gains more time than the long one loses.
//!
//! Halves are halves of the time, so it is costs that are divided and not tokens: far down a long prompt a token takes as long
//! as several of a new one.

use crate::cost::Cost;

/// What somebody still has to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    /// Position of the first token.
    pub(crate) start: usize,
    /// How many.
    pub(crate) len: usize,
}

/// What a step has for prompts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// What all together may cost.
    pub(crate) cost: usize,
    /// The most tokens of all together.
    pub(crate) tokens: usize,
    /// The most tokens of one.
    pub(crate) chunk: usize,
    /// Tokens that all together may take whatever they cost: no more than these where one of them costs more than there is.
    pub(crate) least: usize,
}

/// Tokens for each of `wants`, which stand in order of age. The oldest gets one even if that costs too much, and what all
/// together lack of the least goes down the line.
pub(crate) fn divide(budget: Budget, cost: Cost, wants: &[Want]) -> Vec<usize> {
    let mut shares = vec![0; wants.len()];
    let Some(oldest) = wants.first() else {
        return shares;
    };
    let price = |want: &Want| cost.of(want.start, want.len);
    let most_for_short = budget.cost.max(price(oldest)) / 2;
    let mut short: Vec<usize> = (1..wants.len()).filter(|&i| price(&wants[i]) <= most_for_short).collect();
    short.sort_by_key(|&i| price(&wants[i]));
    // each in cost and in tokens, since either may be what is short
    let (mut half, mut tokens) = (budget.cost / 2, budget.tokens / 2);
    for i in short {
        let Want { start, len } = wants[i];
        shares[i] = cost.fit(start, len.min(budget.chunk).min(tokens), half);
        half -= cost.of(start, shares[i]);
        tokens -= shares[i];
    }
    let spent: usize = shares.iter().zip(wants).map(|(share, want)| cost.of(want.start, *share)).sum();
    let (mut left, mut tokens) = (budget.cost - spent, budget.tokens - shares.iter().sum::<usize>());
    for (i, (share, want)) in shares.iter_mut().zip(wants).enumerate() {
        let most = (want.len.min(budget.chunk) - *share).min(tokens);
        let fits = cost.fit(want.start + *share, most, left).max(usize::from(i == 0).min(most));
        left = left.saturating_sub(cost.of(want.start + *share, fits));
        tokens -= fits;
        *share += fits;
    }
    let mut lacking = budget.least.saturating_sub(shares.iter().sum()).min(tokens);
    for (share, want) in shares.iter_mut().zip(wants) {
        let more = lacking.min(want.len.min(budget.chunk) - *share);
        lacking -= more;
        *share += more;
    }
    shares
}

#[cfg(test)]
mod tests;
