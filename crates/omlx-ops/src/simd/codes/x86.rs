//! AVX2. AVX-512 takes the same: two codes a byte fill its registers no better.

use std::arch::x86_64::*;

use super::{Lookup, Lut};
use crate::simd::x86::{Avx2, Avx512};

macro_rules! lookup {
    ($set:ty) => {
        impl Lookup for $set {
            // SAFETY (all functions): the features exist and what is named is readable or writable; the callers' promise.
            #[inline(always)]
            unsafe fn expand(stream: *const u8, bits: usize, count: usize, out: *mut u8) {
                unsafe { expand(stream, bits, count, out) }
            }
            #[inline(always)]
            unsafe fn turn_bytes(rows: &[*const u8; 16], at: usize, lut: &Lut, out: *mut f32) {
                unsafe {
                    match lut.grid {
                        true => turn_bytes::<true>(rows, at, lut, out),
                        false => turn_bytes::<false>(rows, at, lut, out),
                    }
                }
            }
            #[inline(always)]
            unsafe fn turn_halves(rows: &[*const u8; 16], at: usize, lut: &Lut, out: *mut f32) {
                unsafe { turn_halves(rows, at, lut, out) }
            }
            #[inline(always)]
            unsafe fn spread_bytes(codes: *const u8, lut: &Lut, out: [*mut f32; 2]) {
                unsafe {
                    let codes = apart(_mm256_loadu_si256(codes.cast()));
                    match lut.grid {
                        true => spread::<true>(codes, lut, out),
                        false => spread::<false>(codes, lut, out),
                    }
                }
            }
            #[inline(always)]
            unsafe fn spread_halves(codes: *const u8, lut: &Lut, out: [*mut f32; 2]) {
                unsafe {
                    let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(codes.cast()));
                    // the low halves of the bytes below, the high ones above
                    let shifted = _mm256_srlv_epi32(twice, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
                    spread::<false>(_mm256_and_si256(shifted, _mm256_set1_epi8(15)), lut, out)
                }
            }
        }
    };
}
lookup!(Avx512);
lookup!(Avx2);

/// Eight codes at a time, by one deposit of bits.
#[inline(always)]
unsafe fn expand(stream: *const u8, bits: usize, count: usize, out: *mut u8) {
    let mask = 0x0101_0101_0101_0101 * ((1u64 << bits) - 1);
    let bytes = (count * bits).div_ceil(8);
    // SAFETY: whole words as long as they lie inside the stream, then what is left of it.
    unsafe {
        for group in 0..count.div_ceil(8) {
            let at = group * bits;
            let word = if at + 8 <= bytes {
                stream.add(at).cast::<u64>().read_unaligned()
            } else {
                let mut rest = [0u8; 8];
                std::ptr::copy_nonoverlapping(stream.add(at), rest.as_mut_ptr(), bytes - at);
                u64::from_le_bytes(rest)
            };
            out.add(8 * group).cast::<u64>().write_unaligned(_pdep_u64(word, mask));
        }
    }
}

/// Numbers of 32 codes: `[a][b]` has those of bytes `8a + 2i + b` of both halves, `i` from 0 to 3.
#[inline(always)]
unsafe fn numbers<const GRID: bool>(codes: __m256i, lut: &Lut) -> [[__m256; 2]; 2] {
    unsafe {
        if GRID {
            // 2^15 + code + 1/2, the code and a half in the low sixteen bits; less 2^15 and half the levels
            let half = _mm256_set1_epi8(-128);
            let (a, b) = (_mm256_unpacklo_epi8(half, codes), _mm256_unpackhi_epi8(half, codes));
            [grid(a, lut.bias), grid(b, lut.bias)]
        } else {
            let (low, high) = (_mm_loadu_si128(lut.low.as_ptr().cast()), _mm_loadu_si128(lut.high.as_ptr().cast()));
            let low = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(low), codes);
            let high = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(high), codes);
            [words(_mm256_unpacklo_epi8(low, high)), words(_mm256_unpackhi_epi8(low, high))]
        }
    }
}

/// bf16 at even and at odd places as f32.
#[inline(always)]
unsafe fn words(pairs: __m256i) -> [__m256; 2] {
    unsafe {
        let (even, odd) = (_mm256_slli_epi32::<16>(pairs), _mm256_and_si256(pairs, _mm256_set1_epi32(-0x1_0000)));
        [_mm256_castsi256_ps(even), _mm256_castsi256_ps(odd)]
    }
}

/// Words at even and at odd places as the low halves of numbers from 2^15 on, less the bias.
#[inline(always)]
unsafe fn grid(pairs: __m256i, bias: f32) -> [__m256; 2] {
    unsafe {
        let (top, bias) = (_mm256_set1_epi16(0x4700), _mm256_set1_ps(bias));
        let even = _mm256_blend_epi16::<0xaa>(pairs, top);
        let odd = _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(pairs), top);
        [_mm256_sub_ps(_mm256_castsi256_ps(even), bias), _mm256_sub_ps(_mm256_castsi256_ps(odd), bias)]
    }
}

/// Sixteen bytes of each row, turned: register `j` has bytes `2j` and `2j + 1` of rows 0, 8, 1, 9, 2, 10, 3, 11 in its lower half and of rows
/// 4, 12, … in its upper one, the order in which [`numbers`] leaves the rows sorted.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "indices over registers; iterators would hide the tile")]
unsafe fn turned(rows: &[*const u8; 16], at: usize) -> [__m256i; 8] {
    unsafe {
        let mut r = [_mm256_setzero_si256(); 8];
        for i in 0..8 {
            let low = i / 2 + i % 2 * 8;
            let below = _mm_loadu_si128(rows[low].add(at).cast());
            r[i] = _mm256_inserti128_si256::<1>(
                _mm256_castsi128_si256(below),
                _mm_loadu_si128(rows[low + 4].add(at).cast()),
            );
        }
        let mut a = r;
        for i in 0..4 {
            a[2 * i] = _mm256_unpacklo_epi8(r[2 * i], r[2 * i + 1]);
            a[2 * i + 1] = _mm256_unpackhi_epi8(r[2 * i], r[2 * i + 1]);
        }
        let mut c = a;
        for i in 0..2 {
            for part in 0..2 {
                let (x, y) = (a[4 * i + part], a[4 * i + 2 + part]);
                c[4 * i + 2 * part] = _mm256_unpacklo_epi16(x, y);
                c[4 * i + 2 * part + 1] = _mm256_unpackhi_epi16(x, y);
            }
        }
        let mut t = c;
        for i in 0..4 {
            t[2 * i] = _mm256_unpacklo_epi32(c[i], c[4 + i]);
            t[2 * i + 1] = _mm256_unpackhi_epi32(c[i], c[4 + i]);
        }
        t
    }
}

#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "indices over registers; iterators would hide the tile")]
unsafe fn turn_bytes<const GRID: bool>(rows: &[*const u8; 16], at: usize, lut: &Lut, out: *mut f32) {
    unsafe {
        let t = turned(rows, at);
        for j in 0..8 {
            columns::<GRID>(t[j], lut, out.add(32 * j), 16);
        }
    }
}

#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "indices over registers; iterators would hide the tile")]
unsafe fn turn_halves(rows: &[*const u8; 16], at: usize, lut: &Lut, out: *mut f32) {
    unsafe {
        let t = turned(rows, at);
        let mask = _mm256_set1_epi8(15);
        for j in 0..8 {
            columns::<false>(_mm256_and_si256(t[j], mask), lut, out.add(64 * j), 32);
            columns::<false>(_mm256_and_si256(_mm256_srli_epi16::<4>(t[j]), mask), lut, out.add(64 * j + 16), 32);
        }
    }
}

/// Two columns of sixteen numbers, `step` apart.
#[inline(always)]
unsafe fn columns<const GRID: bool>(codes: __m256i, lut: &Lut, out: *mut f32, step: usize) {
    unsafe {
        let [first, second] = numbers::<GRID>(codes, lut);
        _mm256_storeu_ps(out, first[0]);
        _mm256_storeu_ps(out.add(8), first[1]);
        _mm256_storeu_ps(out.add(step), second[0]);
        _mm256_storeu_ps(out.add(step + 8), second[1]);
    }
}

/// Bytes at even places to the lower half, those at odd ones to the upper.
#[inline(always)]
unsafe fn apart(codes: __m256i) -> __m256i {
    unsafe {
        let order = _mm256_setr_epi8(
            0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,
        );
        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(codes, order))
    }
}

#[inline(always)]
unsafe fn spread<const GRID: bool>(codes: __m256i, lut: &Lut, out: [*mut f32; 2]) {
    unsafe {
        let [first, second] = numbers::<GRID>(codes, lut);
        _mm256_storeu_ps(out[0], first[0]);
        _mm256_storeu_ps(out[0].add(8), first[1]);
        _mm256_storeu_ps(out[1], second[0]);
        _mm256_storeu_ps(out[1].add(8), second[1]);
    }
}
