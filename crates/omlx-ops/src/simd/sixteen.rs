//! Sixteen outputs side by side, the work of linear layers of plain floats.
//!
//! A panel holds, for one column after another, the weights of sixteen rows. A vector of them is multiplied with one number of
//! `x` and added to sixteen running sums, each a lane of its own; so an output is one chain of fused multiply-adds along the
//! columns, whatever the number of rows of `x`, and every instruction set gives the same bits.

use half::{bf16, f16};

use super::LANES;
#[cfg(not(target_arch = "aarch64"))]
use super::Portable;

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

/// All functions are unsafe as those of [`Simd`](super::Simd) are.
pub(crate) trait Sixteen {
    /// Sixteen numbers.
    type V: Copy;
    /// One number, for every lane.
    type X: Copy;
    /// Whether there are registers for six rows of `x` by four panels; else it is six by one.
    const ROOMY: bool;

    unsafe fn zero() -> Self::V;
    unsafe fn f32(at: *const f32) -> Self::V;
    /// In the order of [`bf16_place`].
    unsafe fn bf16(at: *const bf16) -> Self::V;
    unsafe fn f16(at: *const f16) -> Self::V;
    unsafe fn all(at: *const f32) -> Self::X;
    /// `x * w + sum` with one rounding.
    unsafe fn fma(x: Self::X, w: Self::V, sum: Self::V) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn store(at: *mut f32, v: Self::V);
    /// `at`, which need not exist, will be read soon.
    unsafe fn soon<T>(at: *const T);
}

/// Where row `row` of a panel stands among the sixteen bf16 of a column: rows 0..8 in the low halves of 32-bit words and rows
/// 8..16 in the high ones, so that a shift and a mask make them f32.
pub(crate) const fn bf16_place(row: usize) -> usize {
    row % (LANES / 2) * 2 + row / (LANES / 2)
}

#[cfg(not(target_arch = "aarch64"))]
impl Sixteen for Portable {
    type V = [f32; LANES];
    type X = f32;
    const ROOMY: bool = false;

    // SAFETY (all functions): sixteen elements are readable, or writable, says the caller.
    #[inline(always)]
    unsafe fn zero() -> Self::V {
        [0.0; LANES]
    }
    #[inline(always)]
    unsafe fn f32(at: *const f32) -> Self::V {
        unsafe { at.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn bf16(at: *const bf16) -> Self::V {
        std::array::from_fn(|row| unsafe { at.add(bf16_place(row)).read() }.to_f32())
    }
    #[inline(always)]
    unsafe fn f16(at: *const f16) -> Self::V {
        std::array::from_fn(|row| unsafe { at.add(row).read() }.to_f32())
    }
    #[inline(always)]
    unsafe fn all(at: *const f32) -> f32 {
        unsafe { at.read() }
    }
    #[inline(always)]
    unsafe fn fma(x: f32, w: Self::V, sum: Self::V) -> Self::V {
        std::array::from_fn(|i| x.mul_add(w[i], sum[i]))
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn store(at: *mut f32, v: Self::V) {
        unsafe { at.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn soon<T>(_: *const T) {}
}
