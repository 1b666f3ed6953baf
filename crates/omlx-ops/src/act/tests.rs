//! Parity of the fast version with plain candle, and the values at a few points.

use candle_core::{Device, Tensor};

use super::*;

fn check(act: Act, tokens: usize, width: usize) {
    let x = Tensor::randn(0f32, 2.0, (tokens, 2 * width), &Device::Cpu).unwrap();
    let fast = cpu(act, &x, tokens, width).unwrap();
    let slow = reference(act, &x, width).unwrap();
    let diff = (fast - slow).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
    // seen to fail: gate and up swapped (difference above 1)
    assert!(diff < 2e-6, "{act:?} {tokens}x{width}: {diff}");
}

#[test]
fn silu_one_token() {
    check(Act::Silu, 1, 5);
}
#[test]
fn silu_many_tokens() {
    check(Act::Silu, 300, 64);
}
#[test]
fn gelu_many_tokens() {
    check(Act::GeluTanh, 33, 127);
}
#[test]
fn odd_width_is_refused() {
    let x = Tensor::zeros((1, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(gated(Act::Silu, &x), Err(Error::Shape { .. })));
}
