//! Codebooks: the levels that numbers of unit variance are rounded to.

use half::bf16;

use crate::simd::{Isa, LANES, Simd, for_isa};

/// Numbers that are coded at a time.
pub(crate) const PANEL: usize = LANES;

/// The levels of a coding, ascending by code.
///
/// Up to four bits levels are any numbers, which kernels look up inside registers as bf16: that adds a few millionths of the variance to the
/// squared error, and buys two look-ups of bytes for one of words. More levels than a register can hold are evenly spaced and computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebook {
    bits: usize,
    pub(crate) levels: Levels,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Levels {
    /// Looked up. Between level `i` and the next one lies bound `i`.
    Table { values: Vec<f32>, bounds: Vec<f32> },
    /// `code − (2^bits − 1) / 2`, in units of `step`.
    Grid { step: f32 },
}

impl Codebook {
    /// The levels that are given, rounded to bf16.
    ///
    /// # Panics
    /// Unless there are 2, 4, 8 or 16, ascending.
    pub fn table(levels: &[f32]) -> Self {
        assert!(matches!(levels.len(), 2 | 4 | 8 | 16), "a table has 2, 4, 8 or 16 levels");
        let values: Vec<f32> = levels.iter().map(|level| bf16::from_f32(*level).to_f32()).collect();
        assert!(values.windows(2).all(|two| two[0] < two[1]), "levels ascend");
        let bounds = values.windows(2).map(|two| (two[0] + two[1]) / 2.0).collect();
        Self { bits: levels.len().trailing_zeros() as usize, levels: Levels::Table { values, bounds } }
    }

    /// Evenly spaced levels, `step` from one to the next, as many below zero as above.
    ///
    /// # Panics
    /// Unless `bits` is 1 to 8 and `step` a positive number.
    pub fn grid(bits: usize, step: f32) -> Self {
        assert!((1..=8).contains(&bits) && step.is_normal() && step > 0.0, "one to eight bits and a step");
        Self { bits, levels: Levels::Grid { step } }
    }

    /// Bits per number.
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// The level of a code, in the unit that the scalars of vectors are for.
    pub fn value(&self, code: u8) -> f32 {
        match &self.levels {
            Levels::Table { values, .. } => values[usize::from(code) % values.len()],
            Levels::Grid { .. } => f32::from(code) - ((1u32 << self.bits) - 1) as f32 / 2.0,
        }
    }

    /// The unit of levels, for numbers of unit variance.
    #[inline(always)]
    pub(super) fn unit(&self) -> f32 {
        match &self.levels {
            Levels::Table { .. } => 1.0,
            Levels::Grid { step } => *step,
        }
    }

    /// The codes of the levels nearest to `y`, numbers of unit variance, by comparison with the bounds between levels. What is not
    /// a number gets code 0.
    ///
    /// # Panics
    /// When there is not room for as many codes as numbers.
    pub fn codes(&self, y: &[f32], codes: &mut [u8]) {
        let book = self;
        for_isa!(Isa::best(), nearest::<>(book: &Codebook, y: &[f32], codes: &mut [u8]));
    }

    #[inline(always)]
    pub(super) fn nearest(&self, y: &[f32], codes: &mut [u8]) {
        assert_eq!(y.len(), codes.len(), "a code for every number");
        let whole = y.len() / PANEL * PANEL;
        for (y, codes) in y[..whole].chunks_exact(PANEL).zip(codes.chunks_exact_mut(PANEL)) {
            let (Some(y), Some(codes)) = (y.first_chunk(), codes.first_chunk_mut()) else { continue };
            self.panel(y, codes);
        }
        if whole < y.len() {
            let (mut rest, mut out) = ([0f32; PANEL], [0u8; PANEL]);
            rest[..y.len() - whole].copy_from_slice(&y[whole..]);
            self.panel(&rest, &mut out);
            codes[whole..].copy_from_slice(&out[..y.len() - whole]);
        }
    }

    #[inline(always)]
    fn panel(&self, y: &[f32; PANEL], codes: &mut [u8; PANEL]) {
        let mut count = [0i32; PANEL];
        match &self.levels {
            Levels::Table { bounds, .. } => {
                for bound in bounds {
                    for (count, y) in count.iter_mut().zip(y) {
                        *count += i32::from(y > bound);
                    }
                }
            }
            Levels::Grid { step } => {
                let (per_step, half) = (1.0 / step, (1u32 << (self.bits - 1)) as f32);
                for (count, y) in count.iter_mut().zip(y) {
                    let place = (y * per_step + half).clamp(0.0, 2.0 * half - 1.0);
                    // `as` makes a NaN 0
                    *count = place as i32;
                }
            }
        }
        for (code, count) in codes.iter_mut().zip(&count) {
            *code = *count as u8;
        }
    }
}

#[inline(always)]
unsafe fn nearest<S: Simd>(book: &Codebook, y: &[f32], codes: &mut [u8]) {
    book.nearest(y, codes);
}

#[cfg(test)]
mod tests;
