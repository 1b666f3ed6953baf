//! How a step's prompt tokens are divided among those catching up.
//!
//! The oldest gets at least half, so it is never slowed to less than half its speed and everyone's time comes. Up to half
//! goes to prompts that are short, shortest first: those that fit into that half whole, and those at most half as long as what
//! the oldest still has to read. What is left goes down the line, oldest first. Nothing is wasted, so any number of prompts takes
//! the time of their sum; of two equally long ones the first answers in half of that and the second no later than it would
//! otherwise. Half as long is where taking turns begins to pay: the short one gains more time than the long one loses.

/// Tokens for each of `wants`, which stand in order of age; nobody gets more than `chunk`, all together at most `budget`.
pub(crate) fn divide(budget: usize, chunk: usize, wants: &[usize]) -> Vec<usize> {
    let mut shares = vec![0; wants.len()];
    let Some(&oldest) = wants.first() else {
        return shares;
    };
    let most_for_short = budget.max(oldest) / 2;
    let mut short: Vec<usize> = (1..wants.len()).filter(|&i| wants[i] <= most_for_short).collect();
    short.sort_by_key(|&i| wants[i]);
    let mut half = budget / 2;
    for i in short {
        shares[i] = wants[i].min(chunk).min(half);
        half -= shares[i];
    }
    let mut left = budget - shares.iter().sum::<usize>();
    for (share, want) in shares.iter_mut().zip(wants) {
        let more = (want.min(&chunk) - *share).min(left);
        *share += more;
        left -= more;
    }
    shares
}

#[cfg(test)]
mod tests;
