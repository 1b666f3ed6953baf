//! Parity with plain candle; the scalings at points worked out by hand.

use super::*;

fn spec(scaling: RopeScaling) -> RopeSpec {
    RopeSpec { dim: 8, base: 10_000.0, scaling }
}

fn check(heads: usize, dim: usize, rotated: usize) {
    let rope = Rope::new(RopeSpec { dim: rotated, base: 10_000.0, scaling: RopeScaling::None }).unwrap();
    let table = rope.at(&[0, 7, 4000]);
    let wide = Tensor::randn(0f32, 1.0, (3, heads + 2, dim), &Device::Cpu).unwrap();
    let x = wide.narrow(1, 1, heads).unwrap();
    let diff = (cpu(&x, &table).unwrap() - reference(&x, &table).unwrap()).unwrap();
    // seen to fail: sine of the second half with the wrong sign
    assert!(diff.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap() < 1e-6);
}

#[test]
fn whole_head() {
    check(3, 16, 16);
}
#[test]
fn part_of_a_head() {
    check(2, 16, 6);
}

#[test]
fn position_zero_changes_nothing() {
    let table = Rope::new(spec(RopeScaling::None)).unwrap().at(&[0]);
    let x = Tensor::randn(0f32, 1.0, (1, 1, 8), &Device::Cpu).unwrap();
    let y = apply_rope(&x, &table).unwrap();
    assert_eq!(y.to_vec3::<f32>().unwrap(), x.to_vec3::<f32>().unwrap());
}

#[test]
fn linear_divides_every_frequency() {
    let plain = Rope::new(spec(RopeScaling::None)).unwrap().frequencies;
    let scaled = Rope::new(spec(RopeScaling::Linear { factor: 8.0 })).unwrap().frequencies;
    assert!(plain.iter().zip(&scaled).all(|(p, s)| (p / 8.0 - s).abs() < 1e-9));
}

#[test]
fn llama3_keeps_high_and_divides_low_frequencies() {
    let scaling =
        RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 64 };
    let plain = Rope::new(spec(RopeScaling::None)).unwrap().frequencies;
    let scaled = Rope::new(spec(scaling)).unwrap().frequencies;
    assert_eq!(scaled[0], plain[0]); // wavelength 6.28 < 16
    assert!((scaled[3] - plain[3] / 8.0).abs() < 1e-9); // wavelength 6283 > 64
    // wavelength 62.8: smooth = (64 / 62.83 - 1) / 3 = 0.006197
    assert!((scaled[1] - (0.993_803 * 0.1 / 8.0 + 0.006_197 * 0.1)).abs() < 1e-6, "{scaled:?}");
}

#[test]
fn yarn_scales_amplitude_and_ramps() {
    let yarn = Yarn {
        factor: 4.0,
        original_context: 4096,
        beta_fast: 32.0,
        beta_slow: 1.0,
        attention_factor: None,
        mscale: None,
        mscale_all_dim: None,
        truncate: true,
    };
    let rope = Rope::new(RopeSpec { dim: 64, base: 10_000.0, scaling: RopeScaling::Yarn(yarn) }).unwrap();
    assert!((rope.amplitude - 1.138_629_4).abs() < 1e-6); // 0.1 ln 4 + 1
    let plain = inverse_frequencies(64, 10_000.0);
    assert_eq!(rope.frequencies[0], plain[0]);
    assert!((rope.frequencies[31] - plain[31] / 4.0).abs() < 1e-10);
    // low = floor(64 ln(4096 / (32 * 2 pi)) / (2 ln 1e4)) = 10, high = ceil(64 ln(4096 / 2 pi) / (2 ln 1e4)) = 23
    let ramp = (16.0 - 10.0) / 13.0;
    assert!((rope.frequencies[16] - plain[16] * (1.0 - ramp + ramp / 4.0)).abs() < 1e-8);
}

#[test]
fn longrope_divides_each_frequency_by_its_own() {
    let divisors: Arc<[f32]> = [1.0, 1.5, 4.0, 32.0].into();
    let rope = Rope::new(spec(RopeScaling::Long { divisors: divisors.clone(), amplitude: 1.25 })).unwrap();
    let plain = inverse_frequencies(8, 10_000.0);
    for i in 0..4 {
        assert_eq!(rope.frequencies[i], plain[i] / divisors[i]);
    }
    assert_eq!(rope.amplitude, 1.25);
    for bad in [&[1.0; 3][..], &[1.0, 1.0, 0.0, 1.0], &[1.0, f32::NAN, 1.0, 1.0]] {
        assert!(Rope::new(spec(RopeScaling::Long { divisors: bad.into(), amplitude: 1.0 })).is_err(), "{bad:?}");
    }
}

/// bf16 cannot tell positions above 256 apart, f16 none above 2048: an angle from a rounded position is off by a radian and more.
/// Seen to fail: positions rounded to bf16.
#[test]
fn far_positions_are_told_apart() {
    let rope = Rope::new(RopeSpec { dim: 16, base: 10_000.0, scaling: RopeScaling::None }).unwrap();
    for position in [257, 511, 2049, 40_961, 131_071] {
        let table = rope.at(&[position]);
        for i in 0..8 {
            let angle = f64::from(position) / 10_000f64.powf(f64::from(i) / 8.0);
            let (cos, sin) = (f64::from(table.cos[i as usize]), f64::from(table.sin[i as usize]));
            // the angle is an f32 product: so many of its last digits are lost
            let near = 1e-6 + angle * 3e-7;
            assert!(
                (cos - angle.cos()).abs() < near && (sin - angle.sin()).abs() < near,
                "position {position}, pair {i}"
            );
        }
    }
}

#[test]
fn bad_values_are_refused() {
    for (dim, base) in [(0, 1e4), (7, 1e4), (8, 0.0), (8, f32::NAN)] {
        assert!(Rope::new(RopeSpec { dim, base, scaling: RopeScaling::None }).is_err());
    }
    assert!(Rope::new(spec(RopeScaling::Linear { factor: 0.0 })).is_err());
}
