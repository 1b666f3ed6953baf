//! Products of small integers, the work of packed linear layers.
//!
//! Codes stand in tiles of sixteen rows by four columns, 64 bytes, row after row, so that each 32-bit lane of a register belongs
//! to one row: sums need no shuffles, scales are plain vectors, and four numbers of `x` serve all rows. Everything here is
//! exact, so all instruction sets give the same integers.

use super::{LANES, Portable, Simd};

/// Columns of a tile.
pub(crate) const QUAD: usize = 4;
/// Columns that one running sum may cover, so that no lane overflows.
pub(crate) const SPAN: usize = 32;

/// Floats of four bits (E2M1: a sign above two bits of exponent and one of fraction), doubled and with 12 added: 0 to 24.
pub(crate) const FP4: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// `BITS` is the width class of the codes: 4, 6 or 8. Codes are unsigned, numbers of `x` lie in -127..=127. All functions are
/// unsafe as those of [`Simd`] are.
pub(crate) trait Dots: Simd {
    /// `WIDTH` rows by four columns.
    type Bytes: Copy;
    /// One running sum per row.
    type Sums: Copy;

    /// Taken off every code before it is multiplied: [`Self::total`] gives sums over `code - off`.
    fn off<const BITS: u8>() -> i32;
    unsafe fn bytes(at: *const u8) -> Self::Bytes;
    /// The low halves and the high halves.
    unsafe fn nibbles(both: Self::Bytes) -> [Self::Bytes; 2];
    /// The same, each looked up in [`FP4`].
    unsafe fn fp4(both: Self::Bytes) -> [Self::Bytes; 2];
    /// Four numbers of `x`, for every row.
    unsafe fn quad(at: *const i8) -> Self::Bytes;
    unsafe fn zero() -> Self::Sums;
    /// `sum` and the products of two tiles, eight columns; at most [`SPAN`] columns onto one sum.
    unsafe fn dot<const BITS: u8>(sum: Self::Sums, w: [Self::Bytes; 2], x: [Self::Bytes; 2]) -> Self::Sums;
    /// `sum` and the products of one tile of 8-bit codes: of two at a time, the pieces would not fit the registers of AVX2.
    unsafe fn dot_one(sum: Self::Sums, w: Self::Bytes, x: Self::Bytes) -> Self::Sums;
    /// `sum + plus` as f32.
    unsafe fn total<const BITS: u8>(sum: Self::Sums, plus: i32) -> Self::V;
}

impl Dots for Portable {
    type Bytes = [u8; QUAD * LANES];
    type Sums = [i32; LANES];

    #[inline(always)]
    fn off<const BITS: u8>() -> i32 {
        0
    }
    #[inline(always)]
    unsafe fn bytes(at: *const u8) -> Self::Bytes {
        // SAFETY: a tile is readable, says the caller.
        unsafe { at.cast::<Self::Bytes>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn nibbles(both: Self::Bytes) -> [Self::Bytes; 2] {
        [both.map(|b| b & 15), both.map(|b| b >> 4)]
    }
    #[inline(always)]
    unsafe fn fp4(both: Self::Bytes) -> [Self::Bytes; 2] {
        [both.map(|b| FP4[usize::from(b & 15)]), both.map(|b| FP4[usize::from(b >> 4)])]
    }
    #[inline(always)]
    unsafe fn quad(at: *const i8) -> Self::Bytes {
        // SAFETY: four numbers are readable, says the caller.
        let four = unsafe { at.cast::<[u8; QUAD]>().read_unaligned() };
        std::array::from_fn(|i| four[i % QUAD])
    }
    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        [0; LANES]
    }
    #[inline(always)]
    unsafe fn dot<const BITS: u8>(mut sum: Self::Sums, w: [Self::Bytes; 2], x: [Self::Bytes; 2]) -> Self::Sums {
        for (w, x) in w.iter().zip(&x) {
            for (i, (w, x)) in w.iter().zip(x).enumerate() {
                sum[i / QUAD] += i32::from(*w) * i32::from(x.cast_signed());
            }
        }
        sum
    }
    #[inline(always)]
    unsafe fn dot_one(mut sum: Self::Sums, w: Self::Bytes, x: Self::Bytes) -> Self::Sums {
        for (i, (w, x)) in w.iter().zip(&x).enumerate() {
            sum[i / QUAD] += i32::from(*w) * i32::from(x.cast_signed());
        }
        sum
    }
    #[inline(always)]
    unsafe fn total<const BITS: u8>(sum: Self::Sums, plus: i32) -> Self::V {
        sum.map(|s| (s + plus) as f32)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Dots, FP4};
    use crate::simd::x86::{Avx2, Avx512};

    impl Dots for Avx512 {
        type Bytes = __m512i;
        type Sums = __m512i;

        // SAFETY (all functions of both impls): the features exist and a register's worth of codes is readable; the callers' promise.
        #[inline(always)]
        fn off<const BITS: u8>() -> i32 {
            0
        }
        #[inline(always)]
        unsafe fn bytes(at: *const u8) -> __m512i {
            unsafe { _mm512_loadu_si512(at.cast()) }
        }
        #[inline(always)]
        unsafe fn nibbles(both: __m512i) -> [__m512i; 2] {
            unsafe {
                let low = _mm512_set1_epi8(15);
                [_mm512_and_si512(both, low), _mm512_and_si512(_mm512_srli_epi16::<4>(both), low)]
            }
        }
        #[inline(always)]
        unsafe fn fp4(both: __m512i) -> [__m512i; 2] {
            unsafe {
                let table = _mm512_broadcast_i32x4(_mm_loadu_si128(FP4.as_ptr().cast()));
                let [low, high] = Self::nibbles(both);
                [_mm512_shuffle_epi8(table, low), _mm512_shuffle_epi8(table, high)]
            }
        }
        #[inline(always)]
        unsafe fn quad(at: *const i8) -> __m512i {
            unsafe { _mm512_set1_epi32(at.cast::<i32>().read_unaligned()) }
        }
        #[inline(always)]
        unsafe fn zero() -> __m512i {
            unsafe { _mm512_setzero_si512() }
        }
        #[inline(always)]
        unsafe fn dot<const BITS: u8>(sum: __m512i, w: [__m512i; 2], x: [__m512i; 2]) -> __m512i {
            unsafe { _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, w[0], x[0]), w[1], x[1]) }
        }
        #[inline(always)]
        unsafe fn dot_one(sum: __m512i, w: __m512i, x: __m512i) -> __m512i {
            unsafe { _mm512_dpbusd_epi32(sum, w, x) }
        }
        #[inline(always)]
        unsafe fn total<const BITS: u8>(sum: __m512i, plus: i32) -> __m512 {
            unsafe { _mm512_cvtepi32_ps(_mm512_add_epi32(sum, _mm512_set1_epi32(plus))) }
        }
    }

    /// Products of neighbours are added in 16 bits. How long that is safe follows from the width: 32 columns of 4-bit codes
    /// reach 8 * 2 * 15 * 127, eight of 6-bit codes 2 * 2 * 63 * 127, and four of signed bytes 2 * 128 * 127, all below 2^15.
    impl Dots for Avx2 {
        type Bytes = __m256i;
        type Sums = __m256i;

        #[inline(always)]
        fn off<const BITS: u8>() -> i32 {
            if BITS == 8 { 128 } else { 0 }
        }
        #[inline(always)]
        unsafe fn bytes(at: *const u8) -> __m256i {
            unsafe { _mm256_loadu_si256(at.cast()) }
        }
        #[inline(always)]
        unsafe fn nibbles(both: __m256i) -> [__m256i; 2] {
            unsafe {
                let low = _mm256_set1_epi8(15);
                [_mm256_and_si256(both, low), _mm256_and_si256(_mm256_srli_epi16::<4>(both), low)]
            }
        }
        #[inline(always)]
        unsafe fn fp4(both: __m256i) -> [__m256i; 2] {
            unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(FP4.as_ptr().cast()));
                let [low, high] = Self::nibbles(both);
                [_mm256_shuffle_epi8(table, low), _mm256_shuffle_epi8(table, high)]
            }
        }
        #[inline(always)]
        unsafe fn quad(at: *const i8) -> __m256i {
            unsafe { _mm256_set1_epi32(at.cast::<i32>().read_unaligned()) }
        }
        #[inline(always)]
        unsafe fn zero() -> __m256i {
            unsafe { _mm256_setzero_si256() }
        }
        #[inline(always)]
        unsafe fn dot<const BITS: u8>(sum: __m256i, w: [__m256i; 2], x: [__m256i; 2]) -> __m256i {
            unsafe {
                let ones = _mm256_set1_epi16(1);
                match BITS {
                    4 => {
                        let sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w[0], x[0]));
                        _mm256_add_epi16(sum, _mm256_maddubs_epi16(w[1], x[1]))
                    }
                    6 => {
                        let both = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], x[0]), _mm256_maddubs_epi16(w[1], x[1]));
                        _mm256_add_epi32(sum, _mm256_madd_epi16(both, ones))
                    }
                    _ => Self::dot_one(Self::dot_one(sum, w[0], x[0]), w[1], x[1]),
                }
            }
        }
        #[inline(always)]
        unsafe fn dot_one(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
            unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(signed(w, x), _mm256_set1_epi16(1))) }
        }
        #[inline(always)]
        unsafe fn total<const BITS: u8>(sum: __m256i, plus: i32) -> __m256 {
            unsafe {
                let sum = if BITS == 4 { _mm256_madd_epi16(sum, _mm256_set1_epi16(1)) } else { sum };
                _mm256_cvtepi32_ps(_mm256_add_epi32(sum, _mm256_set1_epi32(plus)))
            }
        }
    }

    /// Products of `w - 128` and `x`, neighbours added: the sign of the first goes to the second, as one must be unsigned.
    #[inline(always)]
    unsafe fn signed(w: __m256i, x: __m256i) -> __m256i {
        // SAFETY: AVX2 exists wherever the caller runs.
        unsafe {
            let w = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
            _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
        }
    }
}
