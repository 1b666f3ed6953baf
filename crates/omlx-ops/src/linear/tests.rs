//! The fast version against the reference for every format, shape and instruction set; and bit-equality in any company.

use candle_core::{DType, Device, Tensor};

use super::*;
use crate::simd::Isa;

fn randn(shape: (usize, usize)) -> Tensor {
    Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap()
}

fn dense(n: usize, k: usize, dtype: DType) -> Linear {
    Linear::dense(randn((n, k)).to_dtype(dtype).unwrap(), None).unwrap()
}

fn packed(n: usize, k: usize, bits: u32, group: usize) -> Linear {
    let codes = (0..n * k).map(|i| (i * 7919 % 251) as u8 & ((1u32 << bits) - 1) as u8).collect();
    let numbers = |step: usize| (0..n * k / group).map(|i| (i * step % 97) as f32 / 500.0 - 0.1).collect();
    let parts = PackedParts { bits, group, shape: (n, k), codes, scales: numbers(31), biases: numbers(57) };
    Linear::packed(Packed::new(&parts).unwrap(), None).unwrap()
}

fn bits(t: &Tensor) -> Vec<u32> {
    t.flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
}

/// Plain floats: what the order of additions may do to a sum, relative to its size.
const EXACT: f32 = 4e-6;
/// Packed weights: what rounding the activations to 8 bits may do as well. `int8` has its own, exact tests.
const ROUNDED: f32 = 2e-2;

/// All instruction sets, 1 to 5 rows and many; each row alone gives the same bits.
fn check(linear: &Linear, tolerance: f32) {
    for rows in [1, 2, 3, 4, 5, 70] {
        let x = randn((rows, linear.cols()));
        let slow = reference::forward(linear, &x).unwrap();
        let scale = slow.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap().max(1.0);
        for isa in Isa::available() {
            let fast = cpu::forward_with(isa, linear, &x).unwrap();
            let diff = (&fast - &slow).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
            // seen to fail: high and low nibbles swapped; bias of the neighbouring group
            assert!(diff < tolerance * scale, "{isa:?}, {rows} rows: {diff} of {scale}");
            for row in [0, rows / 2, rows - 1] {
                let alone = cpu::forward_with(isa, linear, &x.narrow(0, row, 1).unwrap()).unwrap();
                // seen to fail: two accumulators for lone rows, one for many
                assert!(bits(&alone) == bits(&fast.narrow(0, row, 1).unwrap()), "{isa:?}, row {row} of {rows}");
            }
        }
    }
}

#[test]
fn f32_weights() {
    check(&dense(100, 64, DType::F32), EXACT);
}
#[test]
fn half_precision_weights() {
    check(&dense(53, 96, DType::BF16), EXACT);
    check(&dense(53, 96, DType::F16), EXACT);
}
#[test]
fn widths_that_are_no_multiple_of_sixteen() {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        check(&dense(7, 37, dtype), EXACT);
        check(&dense(3, 5, dtype), EXACT);
    }
}
#[test]
fn one_output() {
    check(&dense(1, 128, DType::BF16), EXACT);
}
#[test]
fn many_panels() {
    check(&dense(1000, 48, DType::BF16), EXACT);
}
#[test]
fn packed_weights() {
    for (bits, group) in [(4, 32), (4, 16), (4, 64), (5, 32), (6, 16), (8, 32), (8, 128), (2, 64)] {
        check(&packed(50, 256, bits, group), ROUNDED);
    }
}

#[test]
fn stacked_parts_of_several_formats_with_bias() {
    let biased = |linear: Linear| {
        let bias = Tensor::randn(0f32, 1.0, linear.rows(), &Device::Cpu).unwrap();
        Linear::new(linear.parts, Some(bias), linear.rows, linear.cols).unwrap()
    };
    let parts = vec![biased(dense(70, 64, DType::BF16)), packed(33, 64, 4, 32), biased(packed(8, 64, 6, 16))];
    let each: Vec<Linear> = parts.clone();
    let stacked = Linear::stack(parts).unwrap();
    check(&stacked, ROUNDED);
    let x = randn((3, 64));
    let joined: Vec<Tensor> = each.iter().map(|l| cpu::forward(l, &x).unwrap()).collect();
    assert_eq!(bits(&stacked.forward(&x).unwrap()), bits(&Tensor::cat(&joined, 1).unwrap().contiguous().unwrap()));
}

#[test]
fn gather_reads_rows_of_every_format() {
    let all = [dense(9, 40, DType::F32), dense(9, 40, DType::F16), dense(9, 40, DType::BF16), packed(9, 64, 4, 32)];
    for linear in all {
        let fast = linear.gather(&[8, 0, 3, 3]).unwrap();
        assert_eq!(bits(&fast), bits(&reference::gather(&linear, &[8, 0, 3, 3]).unwrap()));
        assert!(matches!(linear.gather(&[9]), Err(Error::Shape { .. })));
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    assert!(dense(4, 8, DType::F32).forward(&randn((1, 9))).is_err());
    assert!(Linear::stack(vec![dense(4, 8, DType::F32), dense(4, 9, DType::F32)]).is_err());
    assert!(Linear::stack(vec![]).is_err());
    let parts =
        PackedParts { bits: 2, group: 32, shape: (1, 32), codes: vec![4; 32], scales: vec![1.0], biases: vec![0.0] };
    assert!(Packed::new(&parts).is_err(), "a code of three bits in two");
    let good = PackedParts { codes: vec![3; 32], ..parts };
    assert!(Packed::new(&good).is_ok());
    assert!(Packed::new(&PackedParts { scales: vec![], ..good.clone() }).is_err());
    assert!(Packed::new(&PackedParts { group: 16, shape: (2, 16), ..good }).is_err(), "half a step of the kernels");
}

#[test]
fn tasks_cover_every_output_once() {
    for (panels, count, wanted) in [
        (1, 1, 8),
        (36, 1, 8),
        (36, 8, 8),
        (36, 512, 8),
        (3072, 1, 8),
        (3072, 17, 256),
        (4, 12, 512),
        (0, 5, 8),
        (7, 0, 8),
    ] {
        let (height, stripes) = cpu::cut(panels, count, wanted);
        assert!(height > 0 && stripes > 0 && stripes <= count.max(1), "{panels} panels, {count} rows");
    }
    // Panels make tasks enough, or stripes do.
    assert_eq!(cpu::cut(3072, 512, 8), (384, 1));
    assert_eq!(cpu::cut(36, 512, 8), (4, 1));
    assert!(cpu::cut(36, 512, 64).1 > 4);
    for (n, rows) in [(1, 1), (40, 3), (100, 203), (2000, 7)] {
        let linear = dense(n, 16, DType::F32);
        let mut seen = vec![0u8; rows * n.div_ceil(16)];
        for (_, _, place) in cpu::tasks(&[(&linear, 0..rows)]) {
            for row in place.rows {
                // seen to fail: the last stripe's rest left out
                place.panels.clone().for_each(|panel| seen[row * n.div_ceil(16) + panel] += 1);
            }
        }
        assert!(seen.iter().all(|s| *s == 1), "{n} outputs, {rows} rows");
    }
}
