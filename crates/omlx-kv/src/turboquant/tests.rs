//! What the codec promises: distortion, size, names.

use candle_core::{DType, Device, Tensor};
use half::f16;

use super::codebook::{Density, lloyd_max};
use super::*;
use crate::{Codec, KvGroup, KvLayout, Reach};

/// Mean squared errors, relative to a vector's square: with the scalar that keeps the length, and with the fitted one; and how many
/// vectors the fitted one made worse.
fn distortion(dim: usize, width: Width, vectors: usize) -> (f64, f64, usize) {
    let turbo = Turbo { keys: width, values: width, seed: 5 };
    let (_, coding) = turbo.codings(dim);
    let (mut by_length, mut fitted, mut worse) = (0.0, 0.0, 0);
    for _ in 0..vectors.div_ceil(1000) {
        let x: Vec<f32> =
            Tensor::randn(0f32, 1.0, (1000, dim), &Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let (mut codes, mut scales) = (vec![0; 1000 * coding.code_bytes()], vec![f16::ZERO; 1000]);
        coding.encode(&x, &mut codes, &mut scales).unwrap();
        let squares = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        let lengths: Vec<f16> =
            x.chunks(dim).map(|x| f16::from_f64((squares(x) / dim as f64).sqrt() * unit(width))).collect();
        let errors = |scales: &[f16]| {
            let mut back = vec![0.0; x.len()];
            coding.decode(&codes, scales, &mut back).unwrap();
            let off = |(x, y): (&[f32], &[f32])| {
                x.iter().zip(y).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>() / squares(x)
            };
            x.chunks(dim).zip(back.chunks(dim)).map(off).collect::<Vec<f64>>()
        };
        let (a, b) = (errors(&lengths), errors(&scales));
        by_length += a.iter().sum::<f64>() / (vectors.div_ceil(1000) * 1000) as f64;
        fitted += b.iter().sum::<f64>() / (vectors.div_ceil(1000) * 1000) as f64;
        // f16 rounds both
        worse += a.iter().zip(&b).filter(|(a, b)| **b > **a * (1.0 + 1e-4) + 1e-7).count();
    }
    (by_length, fitted, worse)
}

/// What one unit of a codebook's levels is.
fn unit(width: Width) -> f64 {
    match width {
        Width::Two | Width::Three | Width::Four => 1.0,
        Width::Six | Width::Eight => codebook::best_step(width.bits()).0,
    }
}

/// Seen to fail: levels of another density; signs left out of the rotation's inverse; the scalar of the length stored.
#[test]
fn distortion_is_what_theory_says() {
    let most = |dim, width| match (dim, width) {
        (64, Width::Two) => 0.1131,
        (64, Width::Three) => 0.0327,
        (64, Width::Four) => 0.00884,
        (128, Width::Two) => 0.1152,
        (128, Width::Three) => 0.0336,
        (128, Width::Four) => 0.00916,
        _ => 1.0,
    };
    for dim in [64, 128, 256] {
        for width in [Width::Two, Width::Three, Width::Four] {
            let theory = lloyd_max(width.bits(), Density::Sphere(dim)).mse;
            let (by_length, fitted, worse) = distortion(dim, width, 20_000);
            assert!((by_length / theory - 1.0).abs() < 0.01, "{dim}, {width:?}: {by_length}, theory {theory}");
            assert!(fitted < by_length && fitted <= most(dim, width) * 1.001, "{dim}, {width:?}: fitted {fitted}");
            assert_eq!(worse, 0, "{dim}, {width:?}: the fitted scalar made vectors worse");
        }
    }
}

#[test]
fn heads_of_any_size_and_wide_codes() {
    for dim in [80, 96, 112, 100] {
        let (by_length, fitted, _) = distortion(dim, Width::Four, 5000);
        let theory = lloyd_max(4, Density::Sphere(dim)).mse;
        assert!(
            (by_length / theory - 1.0).abs() < 0.02 && fitted < by_length,
            "{dim}: {by_length}, {fitted}, {theory}"
        );
    }
    assert!(distortion(128, Width::Six, 2000).1 < 0.00106);
    assert!(distortion(128, Width::Eight, 2000).1 < 0.000090);
}

/// Keys whose numbers differ by two orders of magnitude from channel to channel: without the rotation most of a vector would be lost.
#[test]
fn outlying_channels_do_not_matter() {
    for dim in [64, 96, 128] {
        let (coding, _) = Turbo { keys: Width::Three, values: Width::Three, seed: 0 }.codings(dim);
        let x: Vec<f32> =
            Tensor::randn(0f32, 1.0, (2000, dim), &Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let x: Vec<f32> = x.iter().enumerate().map(|(i, x)| if i % dim % 37 == 3 { x * 50.0 } else { *x }).collect();
        let (mut codes, mut scales, mut back) =
            (vec![0; 2000 * coding.code_bytes()], vec![f16::ZERO; 2000], vec![0.0; x.len()]);
        coding.encode(&x, &mut codes, &mut scales).unwrap();
        coding.decode(&codes, &scales, &mut back).unwrap();
        let squares = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        let off: Vec<f32> = x.iter().zip(&back).map(|(a, b)| a - b).collect();
        let d: f64 = x.chunks(dim).zip(off.chunks(dim)).map(|(x, off)| squares(off) / squares(x)).sum::<f64>() / 2000.0;
        assert!(d < 0.06, "{dim}: {d}");
    }
}

/// The memory that the issue asks for, scalars included: 3.7 times less than bf16 at four bits, 4.7 at three.
#[test]
fn sizes() {
    let plain = Codec::Plain(DType::BF16);
    let ratio = |keys, values, dim| {
        let turbo = Codec::Turbo(Turbo { keys, values, seed: 0 });
        plain.pair_bytes(dim) as f64 / turbo.pair_bytes(dim) as f64
    };
    assert!((ratio(Width::Four, Width::Four, 128) - 3.88).abs() < 0.01);
    assert!((ratio(Width::Four, Width::Three, 128) - 4.41).abs() < 0.01);
    assert!((ratio(Width::Three, Width::Three, 128) - 5.12).abs() < 0.01);
    assert!((ratio(Width::Two, Width::Two, 128) - 7.53).abs() < 0.01);
    assert!((ratio(Width::Four, Width::Four, 64) - 3.76).abs() < 0.01);
    assert!((ratio(Width::Three, Width::Three, 256) - 5.22).abs() < 0.01);
    let codec = Codec::Turbo(Turbo { keys: Width::Four, values: Width::Three, seed: 0 });
    let group = KvGroup { layers: vec![0, 1], heads: 3, dim: 20, reach: Reach::All, codec };
    // a key of 20 numbers takes ten bytes and a value eight, and each two more
    assert_eq!(KvLayout { groups: vec![group] }.block_bytes(0, 16), 2 * 3 * 16 * (10 + 2 + 8 + 2));
}

#[test]
fn names_differ_wherever_codes_would() {
    let turbo = Turbo { keys: Width::Four, values: Width::Three, seed: 0 };
    assert_eq!(Codec::Turbo(turbo).name(), "turbo101-k4-v3-0000000000000000");
    let others =
        [Turbo { keys: Width::Three, ..turbo }, Turbo { values: Width::Four, ..turbo }, Turbo { seed: 1, ..turbo }];
    assert!(others.iter().all(|other| other.name() != turbo.name()));
    assert_eq!(Codec::Plain(DType::F16).name(), "f16");
}
