//! Rows that come as they were stored: copied into a pool once, with no tensor in between.

use candle_core::{CpuStorage, InplaceOp1, Layout, Tensor};

use crate::dispatch::Target;
use crate::{Error, Result};

/// Writes `bytes`, whole rows in the pool's own type and in this machine's byte order, to the rows of `pool [rows, ..]` from
/// `first` on.
///
/// # Errors
/// When these are no whole rows, they do not lie in the pool, or its type is not one that pools have.
pub fn write_raw(pool: &Tensor, first: usize, bytes: &[u8]) -> Result<()> {
    let width = pool.dims().iter().skip(1).product::<usize>() * pool.dtype().size_in_bytes();
    let places = pool.dims().first().copied().unwrap_or(0);
    let rows = bytes.len() / width.max(1);
    if rows * width != bytes.len() {
        return Err(Error::shape("write_raw", "bytes in rows of", width, bytes.len()));
    }
    if first.checked_add(rows).is_none_or(|end| end > places) {
        return Err(Error::shape("write_raw", "rows within", places, [first, rows]));
    }
    if rows == 0 {
        return Ok(());
    }
    match Target::of(pool.device()) {
        Target::Cpu if pool.is_contiguous() => Ok(pool.inplace_op1(&WriteRaw { at: first * width, bytes })?),
        Target::Cpu | Target::Reference => reference(pool, first, bytes),
    }
}

fn reference(pool: &Tensor, first: usize, bytes: &[u8]) -> Result<()> {
    let mut shape = pool.dims().to_vec();
    shape[0] = bytes.len() / (shape[1..].iter().product::<usize>() * pool.dtype().size_in_bytes());
    let rows = Tensor::from_raw_buffer(bytes, pool.dtype(), &shape, pool.device())?;
    Ok(pool.slice_set(&rows, 0, first)?)
}

struct WriteRaw<'a> {
    at: usize,
    bytes: &'a [u8],
}

impl WriteRaw<'_> {
    fn copy<T: bytemuck::Pod>(&self, pool: &mut [T], layout: &Layout) {
        let pool: &mut [u8] = bytemuck::cast_slice_mut(&mut pool[layout.start_offset()..]);
        pool[self.at..][..self.bytes.len()].copy_from_slice(self.bytes);
    }
}

impl InplaceOp1 for WriteRaw<'_> {
    fn name(&self) -> &'static str {
        "write_raw"
    }

    fn cpu_fwd(&self, pool: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        match pool {
            CpuStorage::U8(pool) => self.copy(pool, layout),
            CpuStorage::U32(pool) => self.copy(pool, layout),
            CpuStorage::F16(pool) => self.copy(pool, layout),
            CpuStorage::BF16(pool) => self.copy(pool, layout),
            CpuStorage::F32(pool) => self.copy(pool, layout),
            _ => candle_core::bail!("write_raw: the pool must be F32, F16, BF16, U8 or U32"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Parity with slice_set, in every type, into a part of a pool, and what is refused.

    use candle_core::{DType, Device};

    use super::*;

    fn pool(dtype: DType) -> Tensor {
        Tensor::zeros((9, 2, 4), dtype, &Device::Cpu).unwrap()
    }

    fn numbers(pool: &Tensor) -> Vec<f64> {
        pool.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn rows_arrive_as_with_slice_set() {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::U8, DType::U32] {
            let (fast, slow) = (pool(dtype), pool(dtype));
            // small numbers in every float type: no NaN, which equals nothing
            let bytes: Vec<u8> = (0..3 * 8 * dtype.size_in_bytes()).map(|i| 1 + (i % 100) as u8).collect();
            write_raw(&fast, 5, &bytes).unwrap();
            reference(&slow, 5, &bytes).unwrap();
            assert_eq!(numbers(&fast), numbers(&slow), "{dtype:?}");
            assert!(numbers(&fast)[5 * 8..8 * 8].iter().all(|x| *x != 0.0), "{dtype:?}");
        }
    }

    #[test]
    fn a_part_of_a_pool_is_written_where_it_stands() {
        let (fast, slow) = (pool(DType::F32), pool(DType::F32));
        let bytes: Vec<u8> = (0..2 * 32).map(|i| 1 + i as u8).collect();
        write_raw(&fast.narrow(0, 3, 4).unwrap(), 1, &bytes).unwrap();
        reference(&slow, 4, &bytes).unwrap();
        assert_eq!(numbers(&fast), numbers(&slow));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_is_written() {
        let pool = pool(DType::F32);
        for (first, len) in [(0, 33), (8, 64), (9, 32), (usize::MAX, 32), (0, 10 * 32)] {
            let refused = write_raw(&pool, first, &vec![1; len]);
            assert!(matches!(refused, Err(Error::Shape { .. })), "{first}, {len}");
        }
        assert!(matches!(write_raw(&self::pool(DType::F64), 0, &[1; 64]), Err(Error::Candle(_))));
        write_raw(&pool, 9, &[]).unwrap();
        assert!(numbers(&pool).iter().all(|x| *x == 0.0));
    }
}
