//! Matrices of plain floats, copied out of a mapped file by all cores: most of the time goes into fetching pages.

use candle_core::{DType, Device, Result, Tensor};
use half::vec::HalfBitsVecExt as _;
use half::{bf16, f16};
use rayon::prelude::*;

/// Values that one task copies: some milliseconds of work, so that small tensors stay on one thread.
const CHUNK: usize = 1 << 20;

/// Little-endian values as a tensor `[rows, cols]` of `dtype`: f32, f16 or bf16.
pub(super) fn matrix(bytes: &[u8], dtype: DType, rows: usize, cols: usize, device: &Device) -> Result<Tensor> {
    match dtype {
        DType::BF16 => {
            let values: Vec<bf16> = copied(bytes, u16::from_le_bytes).reinterpret_into();
            Tensor::from_vec(values, (rows, cols), device)
        }
        DType::F16 => {
            let values: Vec<f16> = copied(bytes, u16::from_le_bytes).reinterpret_into();
            Tensor::from_vec(values, (rows, cols), device)
        }
        _ => Tensor::from_vec(copied(bytes, f32::from_le_bytes), (rows, cols), device),
    }
}

/// Zeros from the allocator are not touched before a task writes over them.
fn copied<const BYTES: usize, T>(bytes: &[u8], value: impl Fn([u8; BYTES]) -> T + Sync) -> Vec<T>
where
    T: Copy + Default + Send,
{
    let mut values = vec![T::default(); bytes.len() / BYTES];
    values.par_chunks_mut(CHUNK).zip(bytes.par_chunks(CHUNK * BYTES)).for_each(|(to, from)| {
        for (to, from) in to.iter_mut().zip(from.as_chunks::<BYTES>().0) {
            *to = value(*from);
        }
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a chunk, at an odd address, every bit pattern of 16 bits among them.
    #[test]
    fn a_copy_has_the_bits_of_the_file() {
        let bytes: Vec<u8> = (0..2 * CHUNK as u32 + 6).flat_map(|i| (i as u16).to_le_bytes()).collect();
        let bytes = &[&[0], bytes.as_slice()].concat()[1..];
        let (cpu, len) = (Device::Cpu, bytes.len() / 2);
        let bits = |dtype| matrix(bytes, dtype, 2, len / 2, &cpu).unwrap().flatten_all().unwrap();
        let words: Vec<u16> = (0..len as u32).map(|i| i as u16).collect();
        let bf16s = bits(DType::BF16).to_vec1::<bf16>().unwrap();
        assert!(bf16s.iter().zip(&words).all(|(found, bits)| found.to_bits() == *bits));
        let f16s = bits(DType::F16).to_vec1::<f16>().unwrap();
        assert!(f16s.iter().zip(&words).all(|(found, bits)| found.to_bits() == *bits));
        let f32s =
            matrix(bytes, DType::F32, 1, len / 2, &cpu).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let pair = |i: usize| u32::from(words[2 * i]) | u32::from(words[2 * i + 1]) << 16;
        assert!(f32s.iter().enumerate().all(|(i, found)| found.to_bits() == pair(i)));
    }
}
