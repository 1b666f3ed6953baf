//! Prices, and what fits into a budget, against counting one by one.

use super::Cost;

#[test]
fn the_further_back_the_dearer() {
    let cost = Cost::new(1000);
    assert_eq!([cost.of(0, 0), cost.of(0, 100), cost.of(1000, 100), cost.of(4000, 100)], [0, 105, 205, 505]);
    assert_eq!(Cost::new(usize::MAX).of(1_000_000, 100), 100);
    assert_eq!(Cost::new(0).of(usize::MAX, usize::MAX), usize::MAX);
}

/// Caught: one too few, one too many, and a search that ends below `most`.
#[test]
fn what_fits() {
    for depth in [1, 3, 10, 1000, usize::MAX] {
        let cost = Cost::new(depth);
        for start in [0, 1, 7, 50, 5000] {
            for most in 0..30 {
                for budget in 0..60 {
                    let fits = (0..=most).rev().find(|&len| cost.of(start, len) <= budget);
                    assert_eq!(Some(cost.fit(start, most, budget)), fits, "{depth} {start} {most} {budget}");
                }
            }
        }
    }
}
