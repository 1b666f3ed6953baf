//! NEON, which every aarch64 processor has: there it is what [`Portable`] means.

use std::arch::aarch64::*;
use std::arch::asm;

use half::{bf16, f16};

use super::Sixteen;
use crate::simd::{LANES, Portable};

impl Sixteen for Portable {
    type V = [float32x4_t; 4];
    type X = float32x4_t;
    const ROOMY: bool = false;

    // SAFETY (all functions): sixteen elements are readable, or writable, says the caller.
    #[inline(always)]
    unsafe fn zero() -> Self::V {
        unsafe { [vdupq_n_f32(0.0), vdupq_n_f32(0.0), vdupq_n_f32(0.0), vdupq_n_f32(0.0)] }
    }
    #[inline(always)]
    unsafe fn f32(at: *const f32) -> Self::V {
        unsafe { [vld1q_f32(at), vld1q_f32(at.add(4)), vld1q_f32(at.add(8)), vld1q_f32(at.add(12))] }
    }
    #[inline(always)]
    unsafe fn bf16(at: *const bf16) -> Self::V {
        unsafe {
            let (first, second) = (vld1q_u32(at.cast()), vld1q_u32(at.add(LANES / 2).cast()));
            let mask = vdupq_n_u32(0xffff_0000);
            [
                vreinterpretq_f32_u32(vshlq_n_u32::<16>(first)),
                vreinterpretq_f32_u32(vshlq_n_u32::<16>(second)),
                vreinterpretq_f32_u32(vandq_u32(first, mask)),
                vreinterpretq_f32_u32(vandq_u32(second, mask)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn f16(at: *const f16) -> Self::V {
        unsafe {
            let (first, second) = (vld1q_u16(at.cast()), vld1q_u16(at.add(LANES / 2).cast()));
            let ([a, b], [c, d]) = (widen(first), widen(second));
            [a, b, c, d]
        }
    }
    #[inline(always)]
    unsafe fn all(at: *const f32) -> float32x4_t {
        unsafe { vld1q_dup_f32(at) }
    }
    #[inline(always)]
    unsafe fn fma(x: float32x4_t, w: Self::V, sum: Self::V) -> Self::V {
        unsafe {
            [
                vfmaq_f32(sum[0], x, w[0]),
                vfmaq_f32(sum[1], x, w[1]),
                vfmaq_f32(sum[2], x, w[2]),
                vfmaq_f32(sum[3], x, w[3]),
            ]
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        unsafe { [vaddq_f32(a[0], b[0]), vaddq_f32(a[1], b[1]), vaddq_f32(a[2], b[2]), vaddq_f32(a[3], b[3])] }
    }
    #[inline(always)]
    unsafe fn store(at: *mut f32, v: Self::V) {
        unsafe {
            vst1q_f32(at, v[0]);
            vst1q_f32(at.add(4), v[1]);
            vst1q_f32(at.add(8), v[2]);
            vst1q_f32(at.add(12), v[3]);
        }
    }
    #[inline(always)]
    unsafe fn soon<T>(at: *const T) {
        // SAFETY: a hint; any address will do.
        unsafe { asm!("prfm pldl1strm, [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly)) }
    }
}

/// Eight f16 as f32. The instruction is as old as aarch64; only its intrinsic wants a 16-bit float type.
#[inline(always)]
unsafe fn widen(halves: uint16x8_t) -> [float32x4_t; 2] {
    let (low, high): (float32x4_t, float32x4_t);
    // SAFETY: registers only.
    unsafe {
        asm!(
            "fcvtl {low:v}.4s, {halves:v}.4h",
            "fcvtl2 {high:v}.4s, {halves:v}.8h",
            halves = in(vreg) halves,
            low = out(vreg) low,
            high = lateout(vreg) high,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    [low, high]
}
