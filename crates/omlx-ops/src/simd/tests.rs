//! Every instruction set here gives the very same bits as the portable one.

use super::*;

/// Runs each operation once and stores the results one after another.
#[inline(always)]
unsafe fn all_operations<S: Simd>(x: &[f32; 32], codes: &[u8; 16], out: &mut [f32]) {
    let bf: Vec<bf16> = x.iter().map(|v| bf16::from_f32(*v)).collect();
    let hf: Vec<f16> = x.iter().map(|v| f16::from_f32(*v)).collect();
    // SAFETY: all buffers hold at least sixteen elements; the features exist by `for_isa`.
    unsafe {
        let (a, b) = (S::load(x.as_ptr()), S::load(x.as_ptr().add(16)));
        let results = [
            S::splat(x[3]),
            a,
            S::load_bf16(bf.as_ptr()),
            S::load_f16(hf.as_ptr()),
            S::load_u8(codes.as_ptr()),
            S::load_nibbles(codes.as_ptr(), false),
            S::load_nibbles(codes.as_ptr(), true),
            S::fma(a, b, S::splat(0.25)),
            S::mul(a, b),
            S::add(a, b),
            S::splat(S::sum(a)),
        ];
        for (i, v) in results.into_iter().enumerate() {
            S::store(out[i * LANES..].as_mut_ptr(), v);
        }
    }
}

fn run(isa: Isa) -> Vec<u32> {
    let x: [f32; 32] = std::array::from_fn(|i| ((i * 7919 + 13) % 101) as f32 / 7.0 - 6.0);
    let codes: [u8; 16] = std::array::from_fn(|i| (i * 37 + 5) as u8);
    let mut out = vec![0f32; 11 * LANES];
    let (x, codes, out_ref) = (&x, &codes, &mut out[..]);
    for_isa!(isa, all_operations::<>(x: &[f32; 32], codes: &[u8; 16], out_ref: &mut [f32]));
    out.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn every_set_agrees_bit_for_bit() {
    let expected = run(Isa::Portable);
    for isa in Isa::available() {
        assert_eq!(run(isa), expected, "{isa:?}");
    }
}
