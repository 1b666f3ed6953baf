//! AVX-512 and AVX2 behind the one trait.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Isa, LANES, Simd};

/// AVX-512 F, BW, VL, DQ and VNNI (Ice Lake, Zen 4 and later): one register is one vector.
pub(crate) struct Avx512;

impl Simd for Avx512 {
    const ISA: Isa = Isa::Avx512;
    type V = __m512;
    const WIDTH: usize = 16;

    // SAFETY (all functions of both impls): the features exist and a register's worth of elements is readable; the callers' promise.
    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(at) }
    }
    #[inline(always)]
    unsafe fn load_bf16(at: *const bf16) -> __m512 {
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(at: *const f16) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
    }
    #[inline(always)]
    unsafe fn store(at: *mut f32, v: __m512) {
        unsafe { _mm512_storeu_ps(at, v) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn largest([v, _]: [__m512; 2]) -> f32 {
        unsafe { largest8(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v))) }
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn turn(square: &mut [__m512; LANES]) {
        unsafe {
            // four rows: their numbers of column 4l + m, for each quarter l
            for four in square.chunks_exact_mut(4) {
                let (a, b) = (_mm512_unpacklo_ps(four[0], four[1]), _mm512_unpackhi_ps(four[0], four[1]));
                let (c, d) = (_mm512_unpacklo_ps(four[2], four[3]), _mm512_unpackhi_ps(four[2], four[3]));
                four[0] = _mm512_shuffle_ps::<0x44>(a, c);
                four[1] = _mm512_shuffle_ps::<0xee>(a, c);
                four[2] = _mm512_shuffle_ps::<0x44>(b, d);
                four[3] = _mm512_shuffle_ps::<0xee>(b, d);
            }
            for m in 0..4 {
                let [a, b, c, d] = [square[m], square[4 + m], square[8 + m], square[12 + m]];
                let (even, odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
                let (more_even, more_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
                square[m] = _mm512_shuffle_f32x4::<0x88>(even, more_even);
                square[4 + m] = _mm512_shuffle_f32x4::<0x88>(odd, more_odd);
                square[8 + m] = _mm512_shuffle_f32x4::<0xdd>(even, more_even);
                square[12 + m] = _mm512_shuffle_f32x4::<0xdd>(odd, more_odd);
            }
        }
    }
}

/// AVX2 with FMA and F16C: two registers make sixteen lanes.
pub(crate) struct Avx2;

impl Simd for Avx2 {
    const ISA: Isa = Isa::Avx2;
    type V = __m256;
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(at) }
    }
    #[inline(always)]
    unsafe fn load_bf16(at: *const bf16) -> __m256 {
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(at: *const f16) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
    }
    #[inline(always)]
    unsafe fn store(at: *mut f32, v: __m256) {
        unsafe { _mm256_storeu_ps(at, v) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn largest([low, high]: [__m256; 2]) -> f32 {
        unsafe { largest8(_mm256_max_ps(low, high)) }
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn turn(square: &mut [__m256; LANES]) {
        unsafe {
            // four rows: their numbers of column 4l + m, for each half l
            for four in square[..8].chunks_exact_mut(4) {
                let (a, b) = (_mm256_unpacklo_ps(four[0], four[1]), _mm256_unpackhi_ps(four[0], four[1]));
                let (c, d) = (_mm256_unpacklo_ps(four[2], four[3]), _mm256_unpackhi_ps(four[2], four[3]));
                four[0] = _mm256_shuffle_ps::<0x44>(a, c);
                four[1] = _mm256_shuffle_ps::<0xee>(a, c);
                four[2] = _mm256_shuffle_ps::<0x44>(b, d);
                four[3] = _mm256_shuffle_ps::<0xee>(b, d);
            }
            for m in 0..4 {
                let (low, high) = (square[m], square[4 + m]);
                square[m] = _mm256_permute2f128_ps::<0x20>(low, high);
                square[4 + m] = _mm256_permute2f128_ps::<0x31>(low, high);
            }
        }
    }
}

#[inline(always)]
unsafe fn largest8(v: __m256) -> f32 {
    // SAFETY: AVX exists wherever the callers run.
    unsafe {
        let four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
    }
}
