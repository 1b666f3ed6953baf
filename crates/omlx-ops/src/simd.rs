//! Sixteen f32 lanes, in as many registers as the processor needs for them.
//!
//! Kernels are written once against [`Simd`] and compiled for each instruction set behind a run-time check. Every
//! implementation adds in sixteen lanes and uses fused multiply-add, so the order of additions is the same everywhere.

use half::{bf16, f16};

pub(crate) mod codes;
pub(crate) mod dots;
pub(crate) mod exp;
pub(crate) mod sixteen;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

/// Partial sums of every dot product.
pub(crate) const LANES: usize = 16;

/// One instruction set. All functions are unsafe: the caller makes sure that the set exists and that [`WIDTH`](Self::WIDTH)
/// elements can be read.
pub(crate) trait Simd {
    /// Which set this is.
    const ISA: Isa;
    /// One register.
    type V: Copy;
    /// Numbers in a register: 16, or 8.
    const WIDTH: usize;
    /// Registers that make up sixteen lanes: 1, or 2.
    const PARTS: usize = LANES / Self::WIDTH;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(at: *const f32) -> Self::V;
    unsafe fn load_bf16(at: *const bf16) -> Self::V;
    unsafe fn load_f16(at: *const f16) -> Self::V;
    unsafe fn store(at: *mut f32, v: Self::V);
    /// `a * b + c` with one rounding.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// The largest of sixteen lanes that are numbers; where there is one part, the second does not count.
    unsafe fn largest(parts: [Self::V; 2]) -> f32;
    /// The larger of each two; `b` where one is not a number.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// Rows to columns, of the square that the first [`WIDTH`](Self::WIDTH) registers make.
    unsafe fn turn(square: &mut [Self::V; LANES]);
}

/// Which instruction set kernels use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Isa {
    /// The best one this processor has; asked once.
    pub(crate) fn best() -> Self {
        static BEST: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
        *BEST.get_or_init(|| Self::available()[0])
    }

    /// All this processor has, best first.
    pub(crate) fn available() -> Vec<Self> {
        let mut sets = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vnni")
                && is_x86_feature_detected!("bmi2")
            {
                sets.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi2")
            {
                sets.push(Self::Avx2);
            }
        }
        sets.push(Self::Portable);
        sets
    }
}

/// Plain arrays; the compiler turns them into what the target always has (NEON on aarch64).
pub(crate) struct Portable;

impl Simd for Portable {
    const ISA: Isa = Isa::Portable;
    type V = [f32; LANES];
    const WIDTH: usize = LANES;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self::V {
        // SAFETY: sixteen elements are readable, says the caller; likewise below.
        std::array::from_fn(|i| unsafe { at.add(i).read() })
    }
    #[inline(always)]
    unsafe fn load_bf16(at: *const bf16) -> Self::V {
        // SAFETY: as above.
        std::array::from_fn(|i| unsafe { at.add(i).read() }.to_f32())
    }
    #[inline(always)]
    unsafe fn load_f16(at: *const f16) -> Self::V {
        // SAFETY: as above.
        std::array::from_fn(|i| unsafe { at.add(i).read() }.to_f32())
    }
    #[inline(always)]
    unsafe fn store(at: *mut f32, v: Self::V) {
        for (i, x) in v.iter().enumerate() {
            // SAFETY: as above.
            unsafe { at.add(i).write(*x) }
        }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn largest([v, _]: [Self::V; 2]) -> f32 {
        v.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a })
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn turn(square: &mut [Self::V; LANES]) {
        let from = *square;
        for (i, row) in square.iter_mut().enumerate() {
            for (x, from) in row.iter_mut().zip(&from) {
                *x = from[i];
            }
        }
    }
}

/// Calls `$kernel::<S>($args)` for the instruction set `$isa`, inside a function compiled for it.
///
/// `$kernel` must be `#[inline(always)]`, so that its body is compiled with the set's features.
macro_rules! for_isa {
    ($isa:expr, $kernel:ident :: <$($g:ident : $bound:path),*> ($($arg:ident : $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,bmi2")]
        unsafe fn avx512<$($g: $bound),*>($($arg: $ty),*) {
            // SAFETY: passed on to the caller.
            unsafe { $kernel::<$crate::simd::x86::Avx512, $($g),*>($($arg),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,bmi2")]
        unsafe fn avx2<$($g: $bound),*>($($arg: $ty),*) {
            // SAFETY: passed on to the caller.
            unsafe { $kernel::<$crate::simd::x86::Avx2, $($g),*>($($arg),*) }
        }
        match $isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa` values are only made for sets that the processor has.
            $crate::simd::Isa::Avx512 => unsafe { avx512::<$($g),*>($($arg),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            $crate::simd::Isa::Avx2 => unsafe { avx2::<$($g),*>($($arg),*) },
            // SAFETY: needs no features.
            _ => unsafe { $kernel::<$crate::simd::Portable, $($g),*>($($arg),*) },
        }
    }};
}
pub(crate) use for_isa;

#[cfg(test)]
mod tests;
