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
}

impl Reach {
    /// The first position that the token at `pos` sees; the last one is `pos` itself.
    pub fn first_visible(&self, pos: usize) -> usize {
        match *self {
            Self::All => 0,
            Self::Last(w) => (pos + 1).saturating_sub(w),
        }
    }

    /// The most blocks one table holds at once while its sequence grows to `len` tokens, at most `step` tokens a step.
    ///
    /// During a step a window holds what the step's first token sees and the step itself: `w - 1 + step` tokens, which
    /// may begin anywhere in a block.
    pub fn peak_blocks(&self, len: usize, step: usize, block: usize) -> usize {
        let whole = len.div_ceil(block);
        match *self {
            Self::All => whole,
            Self::Last(w) => {
                let span = (w - 1).saturating_add(step.max(1));
                whole.min((span - 1).div_ceil(block) + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
                    assert_eq!(
                        Some(reach.peak_blocks(200 + step, step, block)),
                        worst,
                        "block {block} w {w} step {step}"
                    );
                }
            }
        }
        assert_eq!(Reach::All.peak_blocks(9, 1, 4), 3);
        assert_eq!(Reach::Last(100).peak_blocks(9, 4, 4), 3);
        assert_eq!(Reach::Last(3).peak_blocks(0, 1, 4), 0);
    }
}
