//! AVX-512 and AVX2.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::Sixteen;
use crate::simd::x86::{Avx2, Avx512};

impl Sixteen for Avx512 {
    type V = __m512;
    type X = __m512;
    const ROOMY: bool = true;

    // SAFETY (all functions of both impls): the features exist and sixteen elements are readable, or writable; the callers' promise.
    #[inline(always)]
    unsafe fn zero() -> __m512 {
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn f32(at: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(at) }
    }
    #[inline(always)]
    unsafe fn bf16(at: *const bf16) -> __m512 {
        unsafe {
            // Each to the high half of its lane, zeros below; lanes 0..8 from even places and 8..16 from odd ones.
            let places = _mm512_set_epi32(
                0x000f_0000,
                0x000d_0000,
                0x000b_0000,
                0x0009_0000,
                0x0007_0000,
                0x0005_0000,
                0x0003_0000,
                0x0001_0000,
                0x000e_0000,
                0x000c_0000,
                0x000a_0000,
                0x0008_0000,
                0x0006_0000,
                0x0004_0000,
                0x0002_0000,
                0x0000_0000,
            );
            let all = _mm512_castsi256_si512(_mm256_loadu_si256(at.cast()));
            _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaa_aaaa, places, all))
        }
    }
    #[inline(always)]
    unsafe fn f16(at: *const f16) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
    }
    #[inline(always)]
    unsafe fn all(at: *const f32) -> __m512 {
        unsafe { _mm512_set1_ps(at.read()) }
    }
    #[inline(always)]
    unsafe fn fma(x: __m512, w: __m512, sum: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(x, w, sum) }
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn store(at: *mut f32, v: __m512) {
        unsafe { _mm512_storeu_ps(at, v) }
    }
    #[inline(always)]
    unsafe fn soon<T>(at: *const T) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

impl Sixteen for Avx2 {
    type V = [__m256; 2];
    type X = __m256;
    const ROOMY: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        unsafe { [_mm256_setzero_ps(), _mm256_setzero_ps()] }
    }
    #[inline(always)]
    unsafe fn f32(at: *const f32) -> Self::V {
        unsafe { [_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))] }
    }
    #[inline(always)]
    unsafe fn bf16(at: *const bf16) -> Self::V {
        unsafe {
            let pairs = _mm256_loadu_si256(at.cast());
            let (low, high) = (_mm256_slli_epi32::<16>(pairs), _mm256_and_si256(pairs, _mm256_set1_epi32(-0x1_0000)));
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }
    }
    #[inline(always)]
    unsafe fn f16(at: *const f16) -> Self::V {
        unsafe { [_mm256_cvtph_ps(_mm_loadu_si128(at.cast())), _mm256_cvtph_ps(_mm_loadu_si128(at.add(8).cast()))] }
    }
    #[inline(always)]
    unsafe fn all(at: *const f32) -> __m256 {
        unsafe { _mm256_set1_ps(at.read()) }
    }
    #[inline(always)]
    unsafe fn fma(x: __m256, w: Self::V, sum: Self::V) -> Self::V {
        unsafe { [_mm256_fmadd_ps(x, w[0], sum[0]), _mm256_fmadd_ps(x, w[1], sum[1])] }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn store(at: *mut f32, v: Self::V) {
        unsafe {
            _mm256_storeu_ps(at, v[0]);
            _mm256_storeu_ps(at.add(8), v[1]);
        }
    }
    #[inline(always)]
    unsafe fn soon<T>(at: *const T) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}
