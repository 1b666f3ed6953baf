//! Who gets how much, line by line.

use super::divide;

fn check(budget: usize, chunk: usize, wants: &[usize], shares: &[usize]) {
    assert_eq!(divide(budget, chunk, wants), shares, "{budget} in chunks of {chunk} for {wants:?}");
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
                let shares = divide(budget, chunk, &wants);
                let possible: usize = wants.iter().map(|want| want.min(&chunk)).sum();
                assert_eq!(shares.iter().sum::<usize>(), possible.min(budget));
                assert!(shares.iter().zip(&wants).all(|(share, want)| share <= want && *share <= chunk));
                assert!(shares[0] >= wants[0].min(chunk).min(budget.div_ceil(2)));
            }
        }
    }
}
