//! What goes in comes out, to the bit, and takes no more memory than it is stored in.

use candle_core::Device;

use super::*;
use crate::linear::Linear;

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// A matrix as a file holds it, at an odd address.
fn file(rows: usize, cols: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; 1 + rows * cols * size];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = (i * 7919 % 251) as u8;
    }
    bytes
}

fn number(dtype: DType, bytes: &[u8]) -> f32 {
    match dtype {
        DType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()),
        DType::F16 => f16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
        _ => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
    }
}

#[test]
fn rows_come_back_as_they_were() {
    for dtype in TYPES {
        let size = dtype.size_in_bytes();
        for (rows, cols) in [(1, 1), (15, 7), (16, 8), (17, 33), (200, 5), (33, 129)] {
            let file = file(rows, cols, size);
            let bytes = &file[1..];
            let row = |row: usize| &bytes[row * cols * size..][..cols * size];
            let dense = Dense::new(Float::of(dtype).unwrap(), (rows, cols), row).unwrap();
            assert_eq!(dense.dims(), (rows, cols));
            let mut out = vec![0f32; cols];
            for i in 0..rows {
                dense.row_into(i, &mut out);
                for (col, out) in out.iter().enumerate() {
                    let expected = number(dtype, &row(i)[col * size..][..size]);
                    // seen to fail: bf16 laid out in row order
                    assert_eq!(out.to_bits(), expected.to_bits(), "{dtype:?} {rows}x{cols}: row {i}, column {col}");
                }
            }
        }
    }
}

#[test]
fn memory_is_that_of_the_stored_type() {
    for dtype in TYPES {
        let bytes = file(64, 100, dtype.size_in_bytes());
        let width = 100 * dtype.size_in_bytes();
        let linear =
            Linear::from_rows(dtype, (64, 100), |row| &bytes[row * width..][..width], None, &Device::Cpu).unwrap();
        assert_eq!(linear.bytes(), 64 * width);
        assert_eq!(linear.clone().bytes(), linear.bytes());
    }
}

#[test]
fn rows_of_another_length_or_type_are_refused() {
    let bytes = vec![0u8; 1000];
    let make = |dtype, len: usize| Linear::from_rows(dtype, (3, 10), |_| &bytes[..len], None, &Device::Cpu);
    assert!(make(DType::F16, 20).is_ok());
    assert!(matches!(make(DType::F16, 19), Err(Error::Shape { .. })));
    assert!(matches!(make(DType::F32, 20), Err(Error::Shape { .. })));
    assert!(matches!(make(DType::U8, 10), Err(Error::Dtype { .. })));
    let huge = Linear::from_rows(DType::F32, (3, usize::MAX / 2), |_| &bytes[..], None, &Device::Cpu);
    assert!(matches!(huge, Err(Error::Shape { .. })));
}

#[test]
fn a_file_and_a_tensor_make_the_same_layer() {
    for dtype in TYPES {
        let width = 70 * dtype.size_in_bytes();
        let w = candle_core::Tensor::randn(0f32, 1.0, (50, 70), &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
        let (storage, _) = w.storage_and_layout();
        let bytes = crate::host::Floats::of(&storage, 0, "test").unwrap().bytes();
        let file =
            Linear::from_rows(dtype, (50, 70), |row| &bytes[row * width..][..width], None, &Device::Cpu).unwrap();
        let tensor = Linear::dense(w.clone(), None).unwrap();
        let all = |l: &Linear| l.dequantize().unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(all(&file), all(&tensor));
        assert_eq!(all(&file), w.to_dtype(DType::F32).unwrap().to_vec2::<f32>().unwrap());
    }
}
