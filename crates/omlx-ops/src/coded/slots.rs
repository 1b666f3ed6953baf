//! Writing the vectors of a step's tokens as codes into their places in a pool, and reading them back.

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Storage, Tensor};
use half::f16;

use super::Coding;
use crate::threads::{self, SharedMut};
use crate::{Error, Result, host};

/// Vectors that a thread codes at a time.
const GRAIN: usize = 32;

/// A pool of codes: keys or values of one layer.
#[derive(Clone, Copy, Debug)]
pub struct Coded<'a> {
    /// `[slots, H, bytes]` u8.
    pub codes: &'a Tensor,
    /// `[slots, H]` f16.
    pub scales: &'a Tensor,
    /// How they are coded.
    pub coding: &'a Coding,
}

impl Coded<'_> {
    /// Slots and heads, if the tensors fit one another and the coding.
    pub(crate) fn check(&self, op: &'static str) -> Result<(usize, usize)> {
        let (slots, heads, bytes) = self.codes.dims3()?;
        if self.codes.dtype() != DType::U8 {
            return Err(Error::Dtype { op, what: "pool of codes", expected: "U8", found: self.codes.dtype() });
        }
        if self.scales.dtype() != DType::F16 {
            return Err(Error::Dtype { op, what: "pool of scales", expected: "F16", found: self.scales.dtype() });
        }
        if bytes != self.coding.code_bytes() {
            return Err(Error::shape(op, "bytes of codes", self.coding.code_bytes(), bytes));
        }
        if self.scales.dims() != [slots, heads] {
            return Err(Error::shape(op, "scales", [slots, heads], self.scales.dims()));
        }
        for (tensor, what) in [(self.codes, "pool of codes"), (self.scales, "pool of scales")] {
            if !tensor.is_contiguous() {
                return Err(Error::shape(op, what, "contiguous", tensor.stride()));
            }
        }
        Ok((slots, heads))
    }
}

/// Codes `rows [T, H, D]` (f32, perhaps a strided view) into the rows `slots [T]` of a pool.
///
/// # Errors
/// When the shapes do not fit, or a slot lies outside the pool.
pub fn write_codes(pool: Coded<'_>, rows: &Tensor, slots: &[u32]) -> Result<()> {
    let (places, heads) = pool.check("write_codes")?;
    let dim = pool.coding.dim();
    if rows.dims() != [slots.len(), heads, dim] {
        return Err(Error::shape("write_codes", "rows", [slots.len(), heads, dim], rows.dims()));
    }
    if let Some(slot) = slots.iter().find(|s| **s as usize >= places) {
        return Err(Error::shape("write_codes", "slots below", places, slot));
    }
    if slots.is_empty() {
        return Ok(());
    }
    let device = pool.codes.device();
    let on_host = rows.to_device(&Device::Cpu)?;
    let (codes, scales) = encode(pool.coding, &on_host, heads)?;
    match device {
        Device::Cpu => {
            let bytes = heads * pool.coding.code_bytes();
            pool.codes.inplace_op1(&Place { slots, width: bytes, from: Data::Bytes(&codes) })?;
            Ok(pool.scales.inplace_op1(&Place { slots, width: heads, from: Data::Scales(&scales) })?)
        }
        _ => {
            let codes = Tensor::from_vec(codes, (slots.len(), heads, pool.coding.code_bytes()), device)?;
            let scales = Tensor::from_vec(scales, (slots.len(), heads), device)?;
            for (t, slot) in slots.iter().enumerate() {
                pool.codes.slice_set(&codes.narrow(0, t, 1)?, 0, *slot as usize)?;
                pool.scales.slice_set(&scales.narrow(0, t, 1)?, 0, *slot as usize)?;
            }
            Ok(())
        }
    }
}

/// The vectors at the given rows of a pool, `[N, H, D]` f32.
///
/// # Errors
/// When the pool's parts do not fit one another, or a slot lies outside it.
pub fn read_codes(pool: Coded<'_>, slots: &[u32]) -> Result<Tensor> {
    let (_, heads) = pool.check("read_codes")?;
    let device = pool.codes.device();
    let at = Tensor::new(slots, device)?;
    let codes: Vec<u8> = pool.codes.index_select(&at, 0)?.flatten_all()?.to_vec1()?;
    let scales: Vec<f16> = pool.scales.index_select(&at, 0)?.flatten_all()?.to_vec1()?;
    let mut x = vec![0f32; scales.len() * pool.coding.dim()];
    pool.coding.decode(&codes, &scales, &mut x)?;
    Ok(Tensor::from_vec(x, (slots.len(), heads, pool.coding.dim()), device)?)
}

fn encode(coding: &Coding, rows: &Tensor, heads: usize) -> Result<(Vec<u8>, Vec<f16>)> {
    let rows = host::rows(rows, "write_codes", "rows")?;
    let (bytes, dim) = (coding.code_bytes(), coding.dim());
    let mut codes = vec![0u8; rows.rows * heads * bytes];
    let mut scales = vec![f16::ZERO; rows.rows * heads];
    let (x, stride) = (rows.as_slice(), rows.stride());
    let (all_codes, all_scales) = (SharedMut::new(&mut codes), SharedMut::new(&mut scales));
    let each = GRAIN.div_ceil(heads);
    threads::for_each(rows.rows.div_ceil(each), |task| {
        for row in task * each..((task + 1) * each).min(rows.rows) {
            // SAFETY: each row belongs to one task.
            let (codes, scales) =
                unsafe { (all_codes.slice(row * heads * bytes, heads * bytes), all_scales.slice(row * heads, heads)) };
            let done = coding.encode(&x[row * stride..][..heads * dim], codes, scales);
            debug_assert!(done.is_ok(), "a row has what its heads need");
        }
    });
    Ok((codes, scales))
}

/// Rows to their slots.
struct Place<'a> {
    slots: &'a [u32],
    width: usize,
    from: Data<'a>,
}

enum Data<'a> {
    Bytes(&'a [u8]),
    Scales(&'a [f16]),
}

impl Place<'_> {
    fn copy<T: Copy>(&self, pool: &mut [T], from: &[T]) {
        for (slot, from) in self.slots.iter().zip(from.chunks_exact(self.width)) {
            pool[*slot as usize * self.width..][..self.width].copy_from_slice(from);
        }
    }
}

impl InplaceOp1 for Place<'_> {
    fn name(&self) -> &'static str {
        "write_codes"
    }

    fn cpu_fwd(&self, pool: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let at = layout.start_offset();
        match (pool, &self.from) {
            (CpuStorage::U8(pool), Data::Bytes(from)) => self.copy(&mut pool[at..], from),
            (CpuStorage::F16(pool), Data::Scales(from)) => self.copy(&mut pool[at..], from),
            _ => candle_core::bail!("write_codes: codes are U8 and scales F16"),
        }
        Ok(())
    }
}

/// The bytes of a CPU pool of codes, and its scales.
pub(crate) fn parts<'a>(codes: (&'a Storage, usize), scales: (&'a Storage, usize)) -> (&'a [u8], &'a [f16]) {
    match (codes.0, scales.0) {
        (Storage::Cpu(CpuStorage::U8(bytes)), Storage::Cpu(CpuStorage::F16(numbers))) => {
            (&bytes[codes.1..], &numbers[scales.1..])
        }
        _ => unreachable!("`Coded::check` saw the types, and host access is only asked for CPU tensors"),
    }
}
