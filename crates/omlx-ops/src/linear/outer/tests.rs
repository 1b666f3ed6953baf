//! The kernels against a scalar reading of the formula, bit for bit, for every type, instruction set and cut.

use candle_core::{DType, Device, Tensor};

use super::*;
use crate::linear::{Linear, Weight, cpu};

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn randn(rows: usize, cols: usize) -> Tensor {
    Tensor::randn(0f32, 1.0, (rows, cols), &Device::Cpu).unwrap()
}

/// A weight, and the same as f32.
fn weight(rows: usize, cols: usize, dtype: DType) -> (Linear, Vec<f32>) {
    let w = randn(rows, cols).to_dtype(dtype).unwrap();
    let wide = w.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap();
    (Linear::dense(w, None).unwrap(), wide)
}

/// One output, as the caption of the module says.
fn formula(x: &[f32], w: &[f32]) -> f32 {
    let block = |x: &[f32], w: &[f32]| x.iter().zip(w).fold(0f32, |s, (x, w)| x.mul_add(*w, s));
    let mut blocks = x.chunks(256).zip(w.chunks(256)).map(|(x, w)| block(x, w));
    let first = blocks.next().unwrap_or(0.0);
    blocks.fold(first, |y, s| y + s)
}

/// Equal bits, or both not a number: which NaN it is the processor may choose.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

fn check(linear: &Linear, wide: &[f32], x: &Tensor, bias: Option<&[f32]>) {
    let (n, k) = (linear.rows(), linear.cols());
    let rows = x.to_vec2::<f32>().unwrap();
    for isa in Isa::available() {
        let y = cpu::forward_with(isa, linear, x).unwrap();
        assert_eq!(y.dims(), [rows.len(), n]);
        for (m, (x, y)) in rows.iter().zip(y.to_vec2::<f32>().unwrap()).enumerate() {
            for (i, y) in y.into_iter().enumerate() {
                let plain = formula(x, &wide[i * k..][..k]);
                let expected = bias.map_or(plain, |bias| plain + bias[i]);
                // seen to fail: blocks of 128 columns in the kernel; the odd last column left out; a bf16 panel in row order
                assert!(
                    same(y, expected),
                    "{isa:?}, row {m} of {}, output {i} of {n}: {y}, not {expected}",
                    rows.len()
                );
            }
        }
    }
}

#[test]
fn every_number_of_rows_gives_the_formula() {
    for dtype in TYPES {
        let (linear, wide) = weight(83, 300, dtype); // five panels and a bit: tiles of four, two and one
        for rows in (0..=14).chain([25, 60]) {
            check(&linear, &wide, &randn(rows, 300), None);
        }
    }
}

#[test]
fn every_size_gives_the_formula() {
    for dtype in TYPES {
        for (n, k) in
            [(1, 1), (1, 700), (15, 2), (16, 3), (17, 7), (31, 255), (33, 256), (64, 257), (130, 513), (5, 1025)]
        {
            let (linear, wide) = weight(n, k, dtype);
            for rows in [1, 2, 3, 5, 8, 13] {
                check(&linear, &wide, &randn(rows, k), None);
            }
        }
    }
}

#[test]
fn no_columns_give_zeros() {
    let (linear, wide) = weight(20, 0, DType::BF16);
    check(&linear, &wide, &Tensor::zeros((3, 0), DType::F32, &Device::Cpu).unwrap(), None);
}

#[test]
fn views_of_wider_rows_are_read_where_they_lie() {
    let wide_x = randn(9, 100);
    for dtype in TYPES {
        let (linear, wide) = weight(40, 37, dtype);
        // seen to fail: a stride of `cols`
        let x = wide_x.narrow(1, 11, 37).unwrap().narrow(0, 1, 7).unwrap();
        assert!(!x.is_contiguous());
        check(&linear, &wide, &x, None);
    }
    // The weight too may be a part of a tensor, or turned.
    let all = randn(50, 60);
    let turned = all.t().unwrap();
    for w in [all.narrow(0, 9, 33).unwrap(), all.narrow(1, 5, 41).unwrap(), turned] {
        let wide: Vec<f32> = w.contiguous().unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let linear = Linear::dense(w, None).unwrap();
        check(&linear, &wide, &randn(3, linear.cols()), None);
    }
}

#[test]
fn biases_and_stacked_parts() {
    let bias: Vec<f32> = (0..21 + 40).map(|i| i as f32 * 0.3 - 5.0).collect();
    let of = |range: Range<usize>| Some(Tensor::new(&bias[range], &Device::Cpu).unwrap());
    let (a, b) = (randn(21, 270), randn(40, 270));
    let joined: Vec<f32> = Tensor::cat(&[&a, &b], 0).unwrap().flatten_all().unwrap().to_vec1().unwrap();
    let parts = vec![Linear::dense(a, of(0..21)).unwrap(), Linear::dense(b, of(21..61)).unwrap()];
    let stacked = Linear::stack(parts).unwrap();
    for rows in [1, 4, 9] {
        // seen to fail: biases of the part's own first outputs
        check(&stacked, &joined, &randn(rows, 270), Some(&bias));
    }
}

#[test]
fn not_a_number_stays_in_its_row_and_its_output() {
    let (n, k, rows) = (37, 290, 8);
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for dtype in TYPES {
            let mut w: Vec<f32> = randn(n, k).flatten_all().unwrap().to_vec1().unwrap();
            let mut x: Vec<f32> = randn(rows, k).flatten_all().unwrap().to_vec1().unwrap();
            (w[36 * k + 289], x[5 * k + 256]) = (odd, odd);
            let w = Tensor::from_vec(w, (n, k), &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
            let wide: Vec<f32> = w.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            let x = Tensor::from_vec(x, (rows, k), &Device::Cpu).unwrap();
            let linear = Linear::dense(w, None).unwrap();
            check(&linear, &wide, &x, None);
            let y = linear.forward(&x).unwrap().to_vec2::<f32>().unwrap();
            for (m, y) in y.iter().enumerate() {
                for (i, y) in y.iter().enumerate() {
                    // seen to fail: `min(f32::MAX)` on the way out, which hides a NaN
                    assert_eq!(y.is_finite(), m != 5 && i != 36, "{odd} {dtype:?}: row {m}, output {i}");
                }
            }
        }
    }
}

#[test]
fn all_f16_and_bf16_are_widened_exactly() {
    for dtype in [DType::F16, DType::BF16] {
        // Every bit pattern as a weight of one column: the product with 1 is the number.
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let linear = Linear::from_rows(dtype, (1 << 16, 1), |row| &bytes[2 * row..][..2], None, &Device::Cpu).unwrap();
        let one = Tensor::ones((1, 1), DType::F32, &Device::Cpu).unwrap();
        let wide = |bits: u16| match dtype {
            DType::F16 => f16::from_bits(bits).to_f32(),
            _ => bf16::from_bits(bits).to_f32(),
        };
        for isa in Isa::available() {
            let y = cpu::forward_with(isa, &linear, &one).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            for (bits, y) in y.into_iter().enumerate() {
                let w = wide(bits as u16);
                // -0 * 1 + 0 is 0. seen to fail: f16 widened by shifting, which loses subnormals
                assert!(same(y, w + 0.0), "{isa:?} {dtype:?} {bits:04x}: {y}, not {w}");
            }
        }
    }
}

#[test]
fn the_cut_does_not_show() {
    for dtype in TYPES {
        let (linear, _) = weight(150, 600, dtype);
        let Weight::Dense(w) = &linear.parts[0] else { unreachable!("on the CPU") };
        let x = randn(40, 600).flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for isa in Isa::available() {
            let run = |rows: usize, panels: usize| {
                let mut out = vec![0f32; 40 * 150];
                let shared = SharedMut::new(&mut out);
                let job = Job { x: &x, stride: 600, out: &shared, total: 150, bias: None };
                for row in (0..40).step_by(rows) {
                    for panel in (0..10).step_by(panels) {
                        let (rows, panels) = (row..(row + rows).min(40), panel..(panel + panels).min(10));
                        job.run(isa, w, &Place { panels, rows, column: 0 });
                    }
                }
                out.iter().map(|y| y.to_bits()).collect::<Vec<_>>()
            };
            let whole = run(40, 10);
            for (rows, panels) in [(1, 1), (1, 10), (2, 3), (3, 4), (5, 7), (6, 2), (7, 5), (13, 1), (40, 3)] {
                // seen to fail: blocks twice as long for a lone row
                assert!(run(rows, panels) == whole, "{isa:?} {dtype:?}: {rows} rows, {panels} panels");
            }
        }
    }
}
