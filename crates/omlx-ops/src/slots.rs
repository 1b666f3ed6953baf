//! Writing the keys or values of a step's tokens into their places in a pool.

use candle_core::{CpuStorage, InplaceOp2, Layout, Tensor};
use half::{bf16, f16};

use crate::dispatch::Target;
use crate::{Error, Result};

/// Writes `rows [T, H, D]` (f32, perhaps a strided view) to the rows `slots [T]` of `pool [slots, H, D]`, in the pool's type.
///
/// # Errors
/// When the shapes do not fit, a slot lies outside the pool, or the pool is not of floats.
pub fn write_slots(pool: &Tensor, rows: &Tensor, slots: &[u32]) -> Result<()> {
    let (places, heads, dim) = pool.dims3()?;
    if rows.dims() != [slots.len(), heads, dim] {
        return Err(Error::shape("write_slots", "rows", [slots.len(), heads, dim], rows.dims()));
    }
    if let Some(slot) = slots.iter().find(|s| **s as usize >= places) {
        return Err(Error::shape("write_slots", "slots below", places, slot));
    }
    match Target::of(pool.device()) {
        Target::Cpu => Ok(pool.inplace_op2(rows, &WriteSlots { slots, width: heads * dim })?),
        Target::Reference => reference(pool, rows, slots),
    }
}

fn reference(pool: &Tensor, rows: &Tensor, slots: &[u32]) -> Result<()> {
    let rows = rows.to_dtype(pool.dtype())?.contiguous()?;
    for (t, slot) in slots.iter().enumerate() {
        pool.slice_set(&rows.narrow(0, t, 1)?, 0, *slot as usize)?;
    }
    Ok(())
}

struct WriteSlots<'a> {
    slots: &'a [u32],
    width: usize,
}

impl WriteSlots<'_> {
    fn copy<T>(&self, pool: &mut [T], rows: &[f32], stride: usize, narrow: impl Fn(f32) -> T) {
        for (t, slot) in self.slots.iter().enumerate() {
            let from = &rows[t * stride..][..self.width];
            let to = &mut pool[*slot as usize * self.width..][..self.width];
            for (to, from) in to.iter_mut().zip(from) {
                *to = narrow(*from);
            }
        }
    }
}

impl InplaceOp2 for WriteSlots<'_> {
    fn name(&self) -> &'static str {
        "write_slots"
    }

    fn cpu_fwd(
        &self,
        pool: &mut CpuStorage,
        pool_layout: &Layout,
        rows: &CpuStorage,
        layout: &Layout,
    ) -> candle_core::Result<()> {
        let CpuStorage::F32(rows) = rows else {
            candle_core::bail!("write_slots reads f32 rows");
        };
        let rows = &rows[layout.start_offset()..];
        let stride = if self.slots.len() > 1 { layout.stride()[0] } else { self.width };
        let at = pool_layout.start_offset();
        match pool {
            CpuStorage::F32(pool) => self.copy(&mut pool[at..], rows, stride, |x| x),
            CpuStorage::F16(pool) => self.copy(&mut pool[at..], rows, stride, saturating_f16),
            CpuStorage::BF16(pool) => self.copy(&mut pool[at..], rows, stride, bf16::from_f32),
            _ => candle_core::bail!("write_slots: the pool must be F32, F16 or BF16"),
        }
        Ok(())
    }
}

/// A key beyond f16's range stays the largest number: infinity would turn the whole row into NaN.
fn saturating_f16(x: f32) -> f16 {
    f16::from_f32(x.clamp(-65504.0, 65504.0))
}

#[cfg(test)]
mod tests;
