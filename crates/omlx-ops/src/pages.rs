//! Pools that take memory only where they were written, and give it back where nothing is kept any more.
//!
//! A pool is one tensor, so that an op sees one address; what comes and goes are the pages below it. Memory that was given back reads as
//! zeros and is taken again by the next write. Allocators keep what is freed, the system does not: so a pool is given back before it is
//! freed, too. Only Linux on the CPU: a graphics device's memory is not the process's, and other
//! systems take pages back when they like, which helps nobody who has to stay below a limit now.

use std::ops::Range;

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Tensor};
use half::vec::HalfBitsVecExt as _;

use crate::dispatch::holds_pages;
use crate::{Error, Result};

/// A pool of zeros `[slots, ..]`. Where the process's pages can be given back it takes no memory before it is written.
///
/// # Errors
/// When the device has no room.
pub fn empty_pool(shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    let count = shape.iter().product::<usize>();
    // Zeros of the plain types come untouched from the system; candle writes those of the half types one by one.
    let pool = match dtype {
        DType::F16 if holds_pages(device) => {
            Tensor::from_vec(vec![0u16; count].reinterpret_into::<half::f16>(), shape, device)?
        }
        DType::BF16 if holds_pages(device) => {
            Tensor::from_vec(vec![0u16; count].reinterpret_into::<half::bf16>(), shape, device)?
        }
        _ => Tensor::zeros(shape, dtype, device)?,
    };
    // An allocator that has kept freed memory has just cleared it by hand, and so touched all of it.
    give_back(&pool, 0..shape.first().copied().unwrap_or(0))?;
    Ok(pool)
}

/// Whether [`give_back`] can do anything for pools on this device.
pub fn gives_back(device: &Device) -> bool {
    cfg!(target_os = "linux") && holds_pages(device)
}

/// Gives the memory of some rows of a pool back to the system and answers how many bytes that was: whole pages only, so less than the rows
/// take, or nothing. What the rows held is lost.
///
/// # Errors
/// When the rows lie outside the pool, or it is none.
pub fn give_back(pool: &Tensor, rows: Range<usize>) -> Result<usize> {
    let slots = *pool.dims().first().unwrap_or(&0);
    if rows.start > rows.end || rows.end > slots {
        return Err(Error::shape("give_back", "rows within", 0..slots, rows));
    }
    if !pool.is_contiguous() {
        return Err(Error::shape("give_back", "the pool", "contiguous", pool.layout()));
    }
    if !gives_back(pool.device()) || rows.is_empty() {
        return Ok(0);
    }
    let given = std::sync::atomic::AtomicUsize::new(0);
    let width = pool.dims()[1..].iter().product::<usize>();
    pool.inplace_op1(&GiveBack { numbers: rows.start * width..rows.end * width, given: &given })?;
    Ok(given.into_inner())
}

struct GiveBack<'a> {
    /// Of the pool, counted from its first.
    numbers: Range<usize>,
    given: &'a std::sync::atomic::AtomicUsize,
}

impl GiveBack<'_> {
    fn give<T: Copy>(&self, pool: &mut [T], layout: &Layout) {
        let first = layout.start_offset();
        let own = &mut pool[first + self.numbers.start..first + self.numbers.end];
        self.given.store(release(own), std::sync::atomic::Ordering::Relaxed);
    }
}

impl InplaceOp1 for GiveBack<'_> {
    fn name(&self) -> &'static str {
        "give_back"
    }

    // In place, so that nobody reads meanwhile.
    fn cpu_fwd(&self, pool: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        match pool {
            CpuStorage::F32(pool) => self.give(pool, layout),
            CpuStorage::F16(pool) => self.give(pool, layout),
            CpuStorage::BF16(pool) => self.give(pool, layout),
            CpuStorage::U8(pool) => self.give(pool, layout),
            CpuStorage::U32(pool) => self.give(pool, layout),
            _ => candle_core::bail!("give_back: the pool must be F32, F16, BF16, U8 or U32"),
        }
        Ok(())
    }
}

/// Gives back the whole pages within `numbers`, all of which may then be zero, and answers how many bytes they are.
#[cfg(target_os = "linux")]
fn release<T: Copy>(numbers: &mut [T]) -> usize {
    // SAFETY: no arguments are read.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0);
    let bytes = size_of_val(numbers);
    if !page.is_power_of_two() {
        return 0;
    }
    let start = numbers.as_mut_ptr().cast::<u8>();
    let before = start.align_offset(page);
    let whole = bytes.saturating_sub(before) / page * page;
    if whole == 0 {
        return 0;
    }
    // SAFETY: `before + whole` bytes lie in the slice, which is borrowed mutably and is private memory of this process (a `Vec`'s).
    // These pages then read as zeros, and all bits zero is a value of every type of a pool.
    let done = unsafe { libc::madvise(start.add(before).cast(), whole, libc::MADV_DONTNEED) };
    if done == 0 { whole } else { 0 }
}

#[cfg(not(target_os = "linux"))]
fn release<T: Copy>(_numbers: &mut [T]) -> usize {
    0
}

#[cfg(test)]
mod tests;
