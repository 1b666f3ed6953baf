//! Weights as plain floats, in the order that the kernels read.
//!
//! Sixteen rows make a panel; in it columns follow one another, sixteen numbers each. Numbers keep the type they are stored in:
//! bf16 and f16 take two bytes and are widened in registers. Rows beyond the last are zeros.

use std::sync::Arc;

use candle_core::DType;
use half::{bf16, f16};

use crate::memory::Buffer;
use crate::simd::LANES;
use crate::simd::sixteen::{Sixteen, bf16_place};
use crate::threads::{self, threads};
use crate::{Error, Result};

/// Rows of a panel.
pub(super) const PANEL: usize = LANES;

/// A matrix `[N, K]` of floats in host memory.
#[derive(Clone)]
pub(crate) struct Dense {
    numbers: Arc<Buffer>, // [panels, K, 16]
    float: Float,
    rows: usize,
    cols: usize,
}

/// The types of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Float {
    F32,
    F16,
    Bf16,
}

impl Float {
    pub(super) fn of(dtype: DType) -> Result<Self> {
        match dtype {
            DType::F32 => Ok(Self::F32),
            DType::F16 => Ok(Self::F16),
            DType::BF16 => Ok(Self::Bf16),
            found => Err(Error::Dtype { op: "linear", what: "weight", expected: "F32, F16, BF16", found }),
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// A type of weights as the kernels know it.
pub(super) trait Number: Copy + Send + Sync {
    /// Where a row of a panel stands among the sixteen numbers of a column.
    fn place(row: usize) -> usize {
        row
    }
    fn to_f32(self) -> f32;
    /// # Safety
    /// The instruction set exists and sixteen numbers are readable.
    unsafe fn load<S: Sixteen>(at: *const Self) -> S::V;
}

macro_rules! number {
    ($float:ty, $load:ident, $to_f32:expr, $($place:item)?) => {
        impl Number for $float {
            $(#[inline(always)] $place)?
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $to_f32(self)
            }
            #[inline(always)]
            unsafe fn load<S: Sixteen>(at: *const Self) -> S::V {
                // SAFETY: passed on.
                unsafe { S::$load(at) }
            }
        }
    };
}
number!(f32, f32, std::convert::identity,);
number!(f16, f16, f16::to_f32,);
number!(
    bf16,
    bf16,
    bf16::to_f32,
    fn place(row: usize) -> usize {
        bf16_place(row)
    }
);

impl std::fmt::Debug for Dense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dense({}x{}, {:?})", self.rows, self.cols, self.float)
    }
}

impl Dense {
    /// Lays out the rows that `row` delivers, each `cols` numbers as they lie in memory, aligned or not.
    pub(super) fn new<'a>(
        float: Float,
        (rows, cols): (usize, usize),
        row: impl Fn(usize) -> &'a [u8] + Sync,
    ) -> Result<Self> {
        let width = cols.checked_mul(float.bytes());
        let panel = width.and_then(|w| w.checked_mul(PANEL));
        let total = panel.and_then(|p| p.checked_mul(rows.div_ceil(PANEL)));
        let (Some(width), Some(total)) = (width, total) else {
            return Err(Error::shape("linear", "size of the weight", "below 2^64 bytes", (rows, cols)));
        };
        if let Some(found) = (0..rows).map(|r| row(r).len()).find(|len| *len != width) {
            return Err(Error::shape("linear", "bytes of every row", width, found));
        }
        let mut numbers = Buffer::new(total)?;
        match float {
            Float::F32 => lay_out::<f32>(&mut numbers, (rows, cols), row),
            Float::F16 => lay_out::<f16>(&mut numbers, (rows, cols), row),
            Float::Bf16 => lay_out::<bf16>(&mut numbers, (rows, cols), row),
        }
        Ok(Self { numbers: Arc::new(numbers), float, rows, cols })
    }

    /// `(N, K)`.
    pub(super) fn dims(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn float(&self) -> Float {
        self.float
    }

    /// All panels; `T` is the type that [`Self::float`] names.
    pub(super) fn panels<T: Number>(&self) -> *const T {
        self.numbers.as_ptr()
    }

    /// One row as f32.
    pub(super) fn row_into(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.cols, "a row of the matrix");
        match self.float {
            Float::F32 => self.read::<f32>(row, out),
            Float::F16 => self.read::<f16>(row, out),
            Float::Bf16 => self.read::<bf16>(row, out),
        }
    }

    fn read<T: Number>(&self, row: usize, out: &mut [f32]) {
        let first = row / PANEL * self.cols * PANEL + T::place(row % PANEL);
        for (col, out) in out.iter_mut().enumerate() {
            // SAFETY: the row exists, says the caller; `T` is the type of the numbers.
            *out = unsafe { self.panels::<T>().add(first + col * PANEL).read() }.to_f32();
        }
    }
}

/// Rows to panels, on all threads: this is also the first touch of the memory, which is most of the work.
fn lay_out<'a, T: Number>(numbers: &mut Buffer, (rows, cols): (usize, usize), row: impl Fn(usize) -> &'a [u8] + Sync) {
    /// Panels may be written from any thread, each from one.
    struct Panels<T>(*mut T);
    // SAFETY: by that.
    unsafe impl<T> Sync for Panels<T> {}
    impl<T> Panels<T> {
        fn at(&self, number: usize) -> *mut T {
            self.0.wrapping_add(number)
        }
    }
    let out = Panels(numbers.as_mut_ptr::<T>());
    let panels = rows.div_ceil(PANEL);
    let each = panels.div_ceil(8 * threads()).max(1);
    threads::for_each(panels.div_ceil(each), |task| {
        for panel in task * each..((task + 1) * each).min(panels) {
            let present = (rows - panel * PANEL).min(PANEL);
            let width = cols * size_of::<T>();
            // Rows beyond the last are read as the last and left zeros.
            let from: [*const T; PANEL] = std::array::from_fn(|r| {
                let row = row(panel * PANEL + r.min(present - 1));
                assert_eq!(row.len(), width, "a row has the length it had before");
                row.as_ptr().cast()
            });
            let to = out.at(panel * cols * PANEL);
            for col in 0..cols {
                for (r, from) in from.iter().enumerate().take(present) {
                    // SAFETY: every row has `cols` numbers, and the panel belongs to this task.
                    unsafe { to.add(col * PANEL + T::place(r)).write(from.add(col).read_unaligned()) }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests;
