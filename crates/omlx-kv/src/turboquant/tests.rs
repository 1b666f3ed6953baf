//! What the codec promises: distortion, size, names.

use candle_core::{DType, Device, Tensor};
use half::f16;

use super::codebook::{Density, lloyd_max};
use super::*;
use crate::{Codec, KvGroup, KvLayout, Reach};

/// Numbers of a normal distribution, the same in every run: the bounds below are a hundredth wide. (Box and Muller, 1958)
fn normal(state: &mut u64) -> f32 {
    let mut uniform = || {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((*state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
    (radius * angle.cos()) as f32
}

/// Mean squared errors, relative to a vector's square: of the nearest levels with the vector's own length, and of the codec with its
/// fitted scalar; and how many vectors the codec made worse.
fn distortion(dim: usize, width: Width, vectors: usize) -> (f64, f64, usize) {
    let (_, coding) = Turbo { keys: width, values: width, seed: 5 }.codings(dim);
    let (rotation, book) = (Rotation::new(dim, 5, Part::Values), width.book());
    let unit = if width > Width::Four { codebook::best_step(width.bits()).0 } else { 1.0 };
    let squares = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    let (mut by_length, mut fitted, mut worse) = (0.0, 0.0, 0);
    let mut state = 7;
    for _ in 0..vectors {
        let x: Vec<f32> = (0..dim).map(|_| normal(&mut state)).collect();
        let (mut codes, mut scale, mut back) = (vec![0; coding.code_bytes()], [f16::ZERO], vec![0.0; dim]);
        coding.encode(&x, &mut codes, &mut scale).unwrap();
        coding.decode(&codes, &scale, &mut back).unwrap();
        let off: Vec<f32> = x.iter().zip(&back).map(|(x, y)| x - y).collect();
        let codec = squares(&off) / squares(&x);

        let mut y = x.clone();
        rotation.forward(&mut y);
        let length = (squares(&x) / dim as f64).sqrt();
        let mut plain = vec![0; dim];
        book.codes(&y.iter().map(|y| y / length as f32).collect::<Vec<_>>(), &mut plain);
        let level = |code: &u8| length * unit * f64::from(book.value(*code));
        let nearest =
            y.iter().zip(&plain).map(|(y, code)| (f64::from(*y) - level(code)).powi(2)).sum::<f64>() / squares(&x);

        by_length += nearest / vectors as f64;
        fitted += codec / vectors as f64;
        worse += usize::from(codec > nearest * (1.0 + 1e-4) + 1e-7); // f16 rounds the scalar
    }
    (by_length, fitted, worse)
}

/// Seen to fail: the scalar of the length stored.
#[test]
fn distortion_is_what_theory_says() {
    let most = |dim, width| match (dim, width) {
        (128, Width::Two) => 0.1152,
        (128, Width::Three) => 0.0336,
        (128, Width::Four) => 0.00916,
        _ => 1.0,
    };
    for dim in [64, 128, 256] {
        for width in [Width::Two, Width::Three, Width::Four] {
            let theory = lloyd_max(width.bits(), Density::Sphere(dim)).mse;
            let (by_length, fitted, worse) = distortion(dim, width, 6_000);
            assert!((by_length / theory - 1.0).abs() < 0.01, "{dim}, {width:?}: {by_length}, theory {theory}");
            assert!(fitted < by_length && fitted <= most(dim, width), "{dim}, {width:?}: fitted {fitted}");
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
    assert!(distortion(128, Width::Six, 2000).1 < 0.001_06);
    assert!(distortion(128, Width::Eight, 2000).1 < 0.000_09);
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
