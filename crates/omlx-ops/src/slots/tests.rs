//! Parity with slice_set, in every pool type and from strided views.

use candle_core::{DType, Device, Tensor};

use super::*;

fn check(dtype: DType) {
    let pool = || Tensor::zeros((9, 2, 4), dtype, &Device::Cpu).unwrap();
    let fused = Tensor::randn(0f32, 1.0, (3, 6, 4), &Device::Cpu).unwrap();
    let rows = fused.narrow(1, 3, 2).unwrap();
    let (fast, slow) = (pool(), pool());
    write_slots(&fast, &rows, &[8, 0, 5]).unwrap();
    reference(&slow, &rows, &[8, 0, 5]).unwrap();
    let of = |t: Tensor| t.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    // seen to fail: stride of a contiguous tensor assumed
    assert_eq!(of(fast), of(slow));
}

#[test]
fn f32_pool() {
    check(DType::F32);
}
#[test]
fn f16_pool() {
    check(DType::F16);
}
#[test]
fn bf16_pool() {
    check(DType::BF16);
}

#[test]
fn huge_values_saturate_in_f16() {
    let pool = Tensor::zeros((1, 1, 1), DType::F16, &Device::Cpu).unwrap();
    write_slots(&pool, &Tensor::new(&[[[1e9f32]]], &Device::Cpu).unwrap(), &[0]).unwrap();
    let value = pool.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert_eq!(value, [65504.0]);
}

#[test]
fn a_slot_outside_the_pool_is_refused() {
    let pool = Tensor::zeros((2, 1, 1), DType::F32, &Device::Cpu).unwrap();
    let rows = Tensor::zeros((1, 1, 1), DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(write_slots(&pool, &rows, &[2]), Err(Error::Shape { .. })));
}
