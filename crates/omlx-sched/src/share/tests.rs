//! Who gets how much, line by line.

use super::{Budget, Want, divide};
use crate::cost::Cost;

/// For prompts from their beginning, where looking back costs nothing.
fn plain(budget: usize, chunk: usize, wants: &[usize]) -> Vec<usize> {
    let wants: Vec<Want> = wants.iter().map(|&len| Want { start: 0, len }).collect();
    divide(Budget { cost: budget, tokens: budget, chunk, least: 0 }, Cost::new(usize::MAX), &wants)
}

fn check(budget: usize, chunk: usize, wants: &[usize], shares: &[usize]) {
    assert_eq!(plain(budget, chunk, wants), shares, "{budget} in chunks of {chunk} for {wants:?}");
}

/// Caught: a half that short ones may overdraw; giving the oldest only half where nobody else is short.
#[test]
fn shares() {
    check(100, 100, &[], &[]);
    check(100, 100, &[30], &[30]);
    check(100, 100, &[300], &[100]);
    check(100, 40, &[300], &[40]);
    // equally long ones: one after the other
    check(100, 100, &[300, 300], &[100, 0]);
    check(100, 60, &[300, 300], &[60, 40]);
    check(100, 100, &[70, 300], &[70, 30]);
    // short ones beside a long one: shortest first, in half of the step
    check(100, 100, &[300, 20], &[80, 20]);
    check(100, 100, &[300, 50], &[50, 50]);
    check(100, 100, &[300, 30, 10, 20], &[50, 20, 10, 20]);
    check(100, 100, &[300, 20, 20, 20], &[50, 20, 20, 10]);
    // at most half as long takes turns, longer waits
    check(100, 100, &[300, 150], &[50, 50]);
    check(100, 100, &[300, 151], &[100, 0]);
    // what the oldest does not want goes down the line
    check(100, 100, &[10, 60, 60], &[10, 60, 30]);
    check(1, 100, &[300, 1], &[1, 0]);
    check(0, 100, &[300, 1], &[0, 0]);
}

/// Nothing is wasted, nobody gets more than wanted, and the oldest gets half of the step or all it wants.
#[test]
fn always() {
    for budget in 0..14 {
        for chunk in 1..9 {
            for code in 0..6_usize.pow(4) {
                let wants: Vec<usize> = (0..4).map(|i| code / 6_usize.pow(i) % 6 * 3 + 1).collect();
                let shares = plain(budget, chunk, &wants);
                let possible: usize = wants.iter().map(|want| want.min(&chunk)).sum();
                assert_eq!(shares.iter().sum::<usize>(), possible.min(budget));
                assert!(shares.iter().zip(&wants).all(|(share, want)| share <= want && *share <= chunk));
                assert!(shares[0] >= wants[0].min(chunk).min(budget.div_ceil(2)));
            }
        }
    }
}

/// Far down a long prompt a short one still gets half of the time, which is most of the tokens.
/// Caught: halves of the tokens, and an oldest that gets nothing where one token is too dear.
#[test]
fn halves_are_halves_of_the_time() {
    let cost = Cost::new(1000);
    let divide = |budget: usize, wants: &[(usize, usize)]| {
        let wants: Vec<Want> = wants.iter().map(|&(start, len)| Want { start, len }).collect();
        divide(Budget { cost: budget, tokens: 256, chunk: 256, least: 0 }, cost, &wants)
    };
    assert_eq!(divide(100, &[(4000, 300)]), [20]);
    assert_eq!(divide(100, &[(4000, 300), (0, 45)]), [10, 45]);
    assert_eq!(divide(100, &[(4000, 300), (0, 200)]), [10, 49]);
    // what nobody else wants is the oldest's
    assert_eq!(divide(100, &[(4000, 300), (0, 5)]), [19, 5]);
    assert_eq!(divide(3, &[(4000, 300), (0, 1)]), [1, 1]);
    assert_eq!(divide(1_000_000, &[(4000, 300), (0, 300)]), [128, 128]);
}

/// So many tokens a step may take however slow they are, and no more than that: what the oldest's would cost is nobody else's to spend.
/// Seen to fail: a budget of what the oldest's least costs, of which short ones take many more tokens.
#[test]
fn the_least_is_counted_in_tokens() {
    let divide = |least: usize, wants: &[(usize, usize)]| {
        let wants: Vec<Want> = wants.iter().map(|&(start, len)| Want { start, len }).collect();
        divide(Budget { cost: 10, tokens: 256, chunk: 256, least }, Cost::new(1000), &wants)
    };
    assert_eq!(divide(8, &[(4000, 300)]), [8]);
    assert_eq!(divide(8, &[(4000, 300), (0, 45)]), [3, 5]);
    assert_eq!(divide(6, &[(4000, 300), (0, 45)]), [1, 5]);
    assert_eq!(divide(1, &[(4000, 300), (0, 45)]), [1, 5]);
    // what the oldest does not want goes down the line
    assert_eq!(divide(8, &[(4000, 2), (0, 45), (0, 45)]), [2, 6, 0]);
    assert_eq!(divide(8, &[(4000, 2), (0, 4)]), [2, 4]);
}

/// Whatever the costs: the budget holds but for the oldest's one token, the oldest gets half of it or all it wants, and
/// nobody could have had one more. Caught: a short one that overdraws its half, and a rest that nobody gets.
#[test]
fn always_by_cost() {
    let cost = Cost::new(7);
    for budget in 0..40 {
        for tokens in 1..12 {
            for code in 0..6_usize.pow(3) {
                let wants: Vec<Want> = (0..3)
                    .map(|i| code / 6_usize.pow(i) % 6)
                    .map(|c| Want { start: c % 3 * 6, len: c * 2 + 1 })
                    .collect();
                let shares = divide(Budget { cost: budget, tokens, chunk: 8, least: 0 }, cost, &wants);
                let price = |i: usize| cost.of(wants[i].start, shares[i]);
                let spent: usize = (0..3).map(price).sum();
                let over = shares[0] == 1 && spent - price(0) <= budget / 2;
                // a share in two pieces is rounded twice
                assert!(spent <= budget + wants.len() || over, "{budget} {tokens} {wants:?} {shares:?}");
                assert!(shares.iter().sum::<usize>() <= tokens && shares[0] > 0);
                assert!(shares.iter().zip(&wants).all(|(share, want)| *share <= want.len.min(8)));
                let more = cost.of(wants[0].start, shares[0] + 1);
                let served = shares[0] == wants[0].len.min(8) || shares[0] >= tokens.div_ceil(2);
                assert!(served || more > budget.div_ceil(2), "{budget} {tokens} {wants:?} {shares:?}");
                let full = shares.iter().sum::<usize>() == tokens;
                for (want, share) in wants.iter().zip(&shares).filter(|(want, share)| **share < want.len.min(8)) {
                    let one = cost.of(want.start + share, 1);
                    assert!(full || spent + one + wants.len() > budget, "{budget} {tokens} {wants:?} {shares:?}");
                }
            }
        }
    }
}
