//! Bits per number, and the codebook of each width.

use std::sync::OnceLock;

use omlx_ops::Codebook;

use super::codebook::{Density, best_step, lloyd_max};

/// How many bits a number takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// Four levels.
    Two,
    /// Eight levels.
    Three,
    /// Sixteen levels.
    Four,
    /// 64 levels, evenly spaced.
    Six,
    /// 256 levels, evenly spaced.
    Eight,
}

impl Width {
    /// All of them, narrow to wide.
    pub const ALL: [Self; 5] = [Self::Two, Self::Three, Self::Four, Self::Six, Self::Eight];

    /// Its number of bits.
    pub fn bits(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Three => 3,
            Self::Four => 4,
            Self::Six => 6,
            Self::Eight => 8,
        }
    }

    /// Lloyd-Max levels for the normal distribution up to four bits, the best evenly spaced ones above: those are computed inside
    /// registers, which hold no table of 64, and their squared error is small by then.
    pub fn book(self) -> Codebook {
        static BOOKS: [OnceLock<Codebook>; 5] = [const { OnceLock::new() }; 5];
        let make = || match self {
            Self::Two | Self::Three | Self::Four => {
                let half = lloyd_max(self.bits(), Density::Normal).levels;
                let all: Vec<f32> =
                    half.iter().rev().map(|x| -x).chain(half.iter().copied()).map(|x| x as f32).collect();
                Codebook::table(&all)
            }
            Self::Six | Self::Eight => Codebook::grid(self.bits(), best_step(self.bits()).0 as f32),
        };
        BOOKS[self as usize].get_or_init(make).clone()
    }
}
