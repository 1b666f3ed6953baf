//! The kernels against a scalar reading of the formula, bit for bit, and against the true product within the error that rounding
//! the activations may make.

use candle_core::{Device, Tensor};

use super::*;
use crate::linear::packed::{PackedFormat, Zero};
use crate::linear::{Linear, Weight, cpu};

struct Case {
    bits: u32,
    group: usize,
    zero: Zero,
    half: bool,
}

const CASES: [Case; 13] = [
    Case { bits: 4, group: 32, zero: Zero::Fp4, half: false },
    Case { bits: 4, group: 16, zero: Zero::Fp4, half: true },
    Case { bits: 4, group: 32, zero: Zero::Code(8), half: true },
    Case { bits: 4, group: 32, zero: Zero::Bias, half: true },
    Case { bits: 4, group: 64, zero: Zero::Bias, half: false },
    Case { bits: 4, group: 16, zero: Zero::Bias, half: false },
    Case { bits: 2, group: 128, zero: Zero::Bias, half: false },
    Case { bits: 5, group: 32, zero: Zero::Code(16), half: true },
    Case { bits: 5, group: 32, zero: Zero::Bias, half: false },
    Case { bits: 6, group: 16, zero: Zero::Code(32), half: false },
    Case { bits: 8, group: 32, zero: Zero::Code(128), half: true },
    Case { bits: 8, group: 64, zero: Zero::Bias, half: false },
    Case { bits: 8, group: 16, zero: Zero::Code(128), half: false },
];

/// Codes and numbers that repeat with no period of the layout's.
fn matrix(case: &Case, rows: usize, cols: usize, code: impl Fn(usize) -> u8 + Sync) -> Packed {
    let &Case { bits, group, zero, half } = case;
    Packed::build(PackedFormat { bits, group, zero, half }, (rows, cols), |row, out| {
        let number = |i: usize, step: usize| ((row * 131 + i) * step % 97) as f32 / 512.0 - 0.09375;
        out.codes.iter_mut().enumerate().for_each(|(i, c)| *c = code(row * cols + i));
        out.scales.iter_mut().enumerate().for_each(|(i, s)| *s = number(i, 31));
        out.biases.iter_mut().enumerate().for_each(|(i, b)| *b = number(i, 57));
    })
    .unwrap()
}

fn ordinary(bits: u32) -> impl Fn(usize) -> u8 + Sync {
    move |i| (i * 7919 % 251) as u8 & ((1u32 << bits) - 1) as u8
}

fn randn(rows: usize, cols: usize) -> Vec<f32> {
    let x = Tensor::randn(0f32, 1.0, (rows, cols), &Device::Cpu).unwrap();
    x.flatten_all().unwrap().to_vec1().unwrap()
}

/// One output, as the caption of the module says.
fn formula(w: &Packed, row: usize, x: &[f32]) -> f32 {
    let step = w.group.min(32);
    let mut y = 0f32;
    for first in (0..w.cols()).step_by(step) {
        let share = &x[first / 32 * 32..][..32];
        let largest = share.iter().fold(0f32, |a, b| a.max(b.abs()));
        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        let (mut sum, mut total) = (0i32, 0i32);
        for (i, x) in x[first..first + step].iter().enumerate() {
            let x = (x * inverse).round_ties_even() as i32;
            sum += (i32::from(w.code(row, first + i)) - w.zero) * x;
            total += x;
        }
        let (scale, bias) = w.affine(row, first);
        y = (sum as f32).mul_add(scale * (largest / 127.0), y);
        if w.biases.is_some() {
            y = bias.mul_add(largest / 127.0 * total as f32, y);
        }
    }
    y
}

fn obvious(w: &Packed, x: &[f32]) -> Vec<f32> {
    (0..w.rows()).map(|row| formula(w, row, x)).collect()
}

fn fast(isa: Isa, w: &Packed, x: &[f32]) -> Vec<f32> {
    let linear = Linear::packed(w.clone(), None).unwrap();
    let x = Tensor::from_slice(x, (x.len() / w.cols(), w.cols()), &Device::Cpu).unwrap();
    cpu::forward_with(isa, &linear, &x).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Faults seen to be caught: the scale of the neighbouring group, the low tile's `x` for the high one, the sum over both halves
/// for a group of sixteen.
#[test]
fn equals_the_formula_bit_for_bit() {
    for case in &CASES {
        for (n, k) in [(50, 256), (16, 128), (1, 384)] {
            let w = matrix(case, n, k, ordinary(case.bits));
            for m in [1, 2, 3, 4, 5, 11] {
                let x = randn(m, k);
                let expected: Vec<f32> = x.chunks(k).flat_map(|x| obvious(&w, x)).collect();
                for isa in Isa::available() {
                    assert!(bits(&fast(isa, &w, &x)) == bits(&expected), "{isa:?} {w:?}, {m} rows");
                }
            }
        }
    }
}

/// The largest codes and activations at once, where narrow sums would run over.
#[test]
fn extremes_do_not_overflow() {
    for case in &CASES {
        let top = ((1u32 << case.bits) - 1) as u8;
        for code in [0, top] {
            let w = matrix(case, 16, 256, move |_| code);
            for x in [vec![3.0; 256], vec![-3.0; 256]] {
                let expected = obvious(&w, &x);
                for isa in Isa::available() {
                    assert!(bits(&fast(isa, &w, &x)) == bits(&expected), "{isa:?} {w:?}, codes {code}");
                }
            }
        }
    }
}

/// An activation is off by half a scale at most, so an output is off by as much times the sum of its weights' sizes.
#[test]
fn the_true_product_is_within_the_rounding_of_activations() {
    for case in &CASES {
        let (n, k) = (33, 512);
        let w = matrix(case, n, k, ordinary(case.bits));
        let x = randn(1, k);
        let got = fast(Isa::best(), &w, &x);
        let mut row = vec![0f32; k];
        for (n, got) in got.iter().enumerate() {
            w.row_into(n, &mut row);
            let (mut exact, mut bound) = (0f64, 0f64);
            for (x, w) in x.chunks(32).zip(row.chunks(32)) {
                let largest = x.iter().fold(0f32, |a, b| a.max(b.abs()));
                for (x, w) in x.iter().zip(w) {
                    exact += f64::from(*x) * f64::from(*w);
                    bound += f64::from(w.abs()) * f64::from(largest) / 254.0;
                }
            }
            let off = (f64::from(*got) - exact).abs();
            assert!(off <= bound * 1.001, "{w:?}: {got} for {exact}, {off} is more than {bound}");
            // far better in practice, as errors go both ways
            assert!(off <= bound * 0.3, "{w:?}: {off} of {bound}");
        }
    }
}

#[test]
fn what_is_no_number_shows() {
    let w = matrix(&CASES[1], 20, 64, ordinary(4));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = randn(2, 64);
        x[40] = bad;
        for isa in Isa::available() {
            let y = fast(isa, &w, &x);
            assert!(y[..20].iter().all(|y| y.is_nan()), "{bad} must not vanish");
            assert!(y[20..].iter().all(|y| y.is_finite()), "nor touch another row");
        }
    }
}

#[test]
fn zeros_and_the_smallest_numbers_give_zeros() {
    let w = matrix(&CASES[0], 20, 64, ordinary(4));
    for x in [vec![0f32; 64], vec![f32::MIN_POSITIVE; 64], vec![1e-42; 64]] {
        assert!(fast(Isa::best(), &w, &x).iter().all(|y| *y == 0.0));
    }
    assert!(fast(Isa::best(), &w, &[1e35; 64]).iter().all(|y| y.is_finite()));
}

#[test]
fn a_stack_of_panels_that_are_not_full_keeps_its_columns_apart() {
    let parts = [(&CASES[0], 5), (&CASES[7], 33), (&CASES[9], 16)];
    let parts: Vec<Packed> = parts.iter().map(|(case, n)| matrix(case, *n, 256, ordinary(case.bits))).collect();
    let x = randn(3, 256);
    let expected: Vec<f32> =
        x.chunks(256).flat_map(|x| parts.iter().flat_map(|w| obvious(w, x)).collect::<Vec<_>>()).collect();
    let stack = parts.into_iter().map(|w| Linear::packed(w, None).unwrap()).collect();
    let stack = Linear::stack(stack).unwrap();
    assert!(matches!(stack.parts[0], Weight::Packed(_)));
    let x = Tensor::from_slice(&x, (3, 256), &Device::Cpu).unwrap();
    let got: Vec<f32> = stack.forward(&x).unwrap().flatten_all().unwrap().to_vec1().unwrap();
    assert_eq!(bits(&got), bits(&expected));
}
