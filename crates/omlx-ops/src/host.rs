//! CPU tensors seen as slices, one token per row.
//!
//! A fused projection is cut into its parts by `narrow`, which leaves a stride between rows. The ops read such views as they
//! are, so that cutting costs nothing.

use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use std::ops::Deref;

use crate::{Error, Result};

/// A borrowed f32 tensor `[rows, ..]` whose rows are contiguous, though perhaps apart from one another.
pub(crate) struct Rows<S> {
    storage: S,
    start: usize,
    stride: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
}

impl<S: Deref<Target = Storage>> Rows<S> {
    /// All elements from the first row on; row `i` starts at `i * stride()`.
    pub(crate) fn as_slice(&self) -> &[f32] {
        let Storage::Cpu(CpuStorage::F32(data)) = &*self.storage else {
            unreachable!("`rows` checked device and dtype");
        };
        &data[self.start..]
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }
}

/// Borrows `x [rows, ..]`.
pub(crate) fn rows<'a>(
    x: &'a Tensor,
    op: &'static str,
    what: &'static str,
) -> Result<Rows<impl Deref<Target = Storage> + 'a>> {
    if x.dtype() != DType::F32 {
        return Err(Error::Dtype { op, what, expected: "F32", found: x.dtype() });
    }
    let dims = x.dims();
    let (storage, layout) = x.storage_and_layout();
    let inner: usize = dims[1..].iter().product();
    let mut expected = inner;
    for (dim, stride) in dims[1..].iter().zip(&layout.stride()[1..]) {
        expected /= (*dim).max(1);
        if *stride != expected && *dim > 1 {
            return Err(Error::shape(op, what, "contiguous within a row", layout.stride()));
        }
    }
    let stride = if dims[0] > 1 { layout.stride()[0] } else { inner };
    Ok(Rows { storage, start: layout.start_offset(), stride, rows: dims[0], width: inner })
}

/// A fresh f32 tensor from computed values.
pub(crate) fn tensor(data: Vec<f32>, shape: impl Into<candle_core::Shape>) -> Result<Tensor> {
    Ok(Tensor::from_vec(data, shape.into(), &Device::Cpu)?)
}

/// Storage of CPU floats in whichever of the three types it is.
pub(crate) enum Floats<'a> {
    F32(&'a [f32]),
    F16(&'a [half::f16]),
    Bf16(&'a [half::bf16]),
}

impl<'a> Floats<'a> {
    /// The same memory as bytes.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        fn of<T>(numbers: &[T]) -> &[u8] {
            // SAFETY: floats have no padding.
            unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
        }
        match self {
            Self::F32(d) => of(d),
            Self::F16(d) => of(d),
            Self::Bf16(d) => of(d),
        }
    }

    /// The contiguous tensor's elements, given its storage guard.
    pub(crate) fn of(storage: &'a Storage, start: usize, op: &'static str) -> Result<Self> {
        match storage {
            Storage::Cpu(CpuStorage::F32(d)) => Ok(Self::F32(&d[start..])),
            Storage::Cpu(CpuStorage::F16(d)) => Ok(Self::F16(&d[start..])),
            Storage::Cpu(CpuStorage::BF16(d)) => Ok(Self::Bf16(&d[start..])),
            Storage::Cpu(other) => Err(Error::Dtype {
                op,
                what: "tensor",
                expected: "F32, F16, BF16",
                found: candle_core::backend::BackendStorage::dtype(other),
            }),
            _ => unreachable!("host access is only asked for CPU tensors"),
        }
    }
}
