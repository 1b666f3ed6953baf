//! Windows by hand, and peaks against every start there is.

use super::Reach;

fn check(reach: Reach, pos: usize, first: usize) {
    assert_eq!(reach.first_visible(pos), first, "{reach:?} at {pos}");
}

#[test]
fn all_sees_everything() {
    check(Reach::All, 0, 0);
    check(Reach::All, 4000, 0);
}

#[test]
fn last_sees_itself_and_w_minus_one() {
    check(Reach::Last(1), 0, 0);
    check(Reach::Last(1), 7, 7);
    check(Reach::Last(4), 2, 0);
    check(Reach::Last(4), 3, 0);
    check(Reach::Last(4), 4, 1);
    check(Reach::Last(32), 100, 69);
}

/// What the token at `pos` sees, one by one.
fn check_seen(reach: Reach, pos: usize, seen: &[usize]) {
    let found: Vec<usize> = (0..pos + 5).filter(|&at| reach.sees(pos, at)).collect();
    assert_eq!(found, seen, "{reach:?} at {pos}");
    let kept = reach.kept(pos);
    assert!(kept <= reach.first_visible(pos), "{reach:?} at {pos} counts a token twice");
    assert_eq!(kept + pos + 1 - reach.first_visible(pos), seen.len());
}

/// Caught: `kept` without its `min`, which counts the start twice while the window still covers it.
#[test]
fn keep_sees_the_start_and_a_window() {
    let reach = Reach::Keep { first: 2, last: 3 };
    check_seen(reach, 0, &[0]);
    check_seen(reach, 2, &[0, 1, 2]);
    check_seen(reach, 3, &[0, 1, 2, 3]);
    check_seen(reach, 4, &[0, 1, 2, 3, 4]);
    check_seen(reach, 5, &[0, 1, 3, 4, 5]);
    check_seen(reach, 9, &[0, 1, 7, 8, 9]);
    check_seen(Reach::Keep { first: 0, last: 2 }, 9, &[8, 9]);
    check_seen(Reach::Keep { first: 5, last: 1 }, 3, &[0, 1, 2, 3]);
    check_seen(Reach::Last(2), 9, &[8, 9]);
    check_seen(Reach::All, 2, &[0, 1, 2]);
}

/// Caught: `span / block + 1` in place of `(span - 1).div_ceil(block) + 1`.
#[test]
fn peak_is_the_worst_of_all_starts() {
    for block in 1..6 {
        for w in 1..12 {
            for step in 1..9 {
                let reach = Reach::Last(w);
                let worst = (0..200_usize)
                    .map(|start| (start + step).div_ceil(block) - reach.first_visible(start) / block)
                    .max();
                assert_eq!(Some(reach.peak_blocks(200 + step, step, block)), worst, "block {block} w {w} step {step}");
            }
        }
    }
    assert_eq!(Reach::All.peak_blocks(9, 1, 4), 3);
    assert_eq!(Reach::Last(100).peak_blocks(9, 4, 4), 3);
    assert_eq!(Reach::Last(3).peak_blocks(0, 1, 4), 0);
}

/// Caught: kept tokens rounded down to whole blocks.
#[test]
fn kept_blocks_come_on_top_of_the_peak() {
    for (block, first, last, step) in [(4, 1, 3, 2), (4, 4, 5, 1), (3, 7, 4, 6), (1, 2, 1, 1), (5, 6, 12, 9)] {
        let reach = Reach::Keep { first, last };
        let held = |start: usize, b: &usize| {
            let shown = |at: usize| at < first || at >= reach.first_visible(start);
            (b * block..(b + 1) * block).any(shown)
        };
        let worst =
            (0..200_usize).map(|start| (0..(start + step).div_ceil(block)).filter(|b| held(start, b)).count()).max();
        assert_eq!(Some(reach.peak_blocks(200 + step, step, block)), worst, "{reach:?} block {block} step {step}");
    }
    assert_eq!(Reach::Keep { first: 100, last: 3 }.peak_blocks(9, 4, 4), 3);
    let endless = Reach::Keep { first: usize::MAX, last: usize::MAX };
    assert_eq!(endless.peak_blocks(usize::MAX, 1, 1), usize::MAX);
}

/// Whether `hit` needs block `index` of a text that ends after `end` blocks.
fn needed(reach: Reach, index: usize, end: usize, block: usize) -> bool {
    (index * block..(index + 1) * block).any(|at| at < end * block && reach.sees(end * block, at))
}

/// Enough to start from at 1, 2, 4, 8 … windows, and hardly more than that.
/// Caught: ends that grow by threes; an end's window begun one block late.
#[test]
fn few_blocks_of_a_window_are_worth_keeping() {
    for block in [1, 4, 16] {
        for last in [2, 3, 7, 16, 21, 64, 200] {
            for reach in [Reach::Last(last), Reach::Keep { first: 9, last }] {
                let label = format!("{reach:?} in blocks of {block}");
                let ends: Vec<usize> = (0..9).map(|n| (last << n) / block).collect();
                for &end in &ends {
                    let lost = (0..end).find(|&i| needed(reach, i, end, block) && !reach.worth_keeping(i, block));
                    assert_eq!(lost, None, "{label}: the end of {end} blocks has nothing to start from");
                }
                // A long text: of some hundred windows, and of some hundred blocks beside the kept ones.
                let long = (last * 256).div_ceil(block).max(256);
                let worth = (reach.kept_blocks(block)..long).filter(|&i| reach.worth_keeping(i, block)).count();
                assert!(worth * 10 < long, "{label}: {worth} of {long} blocks");
            }
        }
    }
}

#[test]
fn everything_is_worth_keeping_where_all_is_seen_and_what_is_kept_is() {
    assert!((0..99).all(|i| Reach::All.worth_keeping(i, 4)));
    let reach = Reach::Keep { first: 9, last: 1 };
    assert!((0..99).all(|i| reach.worth_keeping(i, 4) == (i < 3)));
    // Ends beyond what can be counted are nobody's.
    assert!(!Reach::Last(2).worth_keeping(usize::MAX / 4 - 1, 4));
    assert!(Reach::Last(usize::MAX).worth_keeping(7, 4));
}
