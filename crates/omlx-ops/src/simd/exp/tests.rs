//! Against the exponential of twice the precision.

use super::{decay, exp};

#[test]
fn is_right_to_two_units_in_the_last_place() {
    for i in -87_000..88_000 {
        let x = i as f32 / 1000.0 + 0.000_37;
        let exact = f64::from(x).exp();
        let off = (f64::from(exp(x)) - exact).abs() / exact;
        assert!(off < 2.0 * f64::from(f32::EPSILON), "e^{x}: off by {off}");
    }
}

#[test]
fn ends_are_what_they_should_be() {
    assert_eq!(exp(0.0), 1.0);
    assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    assert_eq!(exp(-200.0), 0.0);
    assert!(exp(f32::INFINITY).is_finite() && exp(f32::INFINITY) > 1e38);
    assert!(exp(f32::NAN).is_nan());
    assert!((exp(-100.0) - 3.78e-44).abs() < 2e-45, "below the normal numbers");
}

#[test]
fn decay_is_right_to_two_units_in_the_last_place() {
    for i in 0..87_000 {
        let x = -(i as f32) / 1000.0;
        let exact = f64::from(x).exp();
        let off = (f64::from(decay(x)) - exact).abs() / exact;
        assert!(off < 2.0 * f64::from(f32::EPSILON), "e^{x}: off by {off}");
    }
    assert!(decay(0.0) == 1.0 && decay(-87.001) == 0.0 && decay(f32::NEG_INFINITY) == 0.0 && decay(f32::NAN).is_nan());
}
