//! Codes to numbers, looked up inside registers.
//!
//! Up to four bits a level is a bf16 whose two bytes are looked up by the code (a table of sixteen bytes is one register) and put
//! together; evenly spaced levels are made by putting the code into the low bits of a number. Both are exact, so every instruction
//! set gives the same bits.

use super::Portable;
use crate::coded::{Codebook, Levels};

#[cfg(target_arch = "x86_64")]
mod x86;

/// A codebook the way kernels want it.
#[derive(Clone, Debug)]
pub(crate) struct Lut {
    /// Whether levels are computed rather than looked up.
    grid: bool,
    /// The low and high bytes of the levels as bf16.
    low: [u8; 16],
    high: [u8; 16],
    /// 2^15 plus half the number of levels.
    bias: f32,
    /// By code.
    values: Box<[f32; 256]>,
}

impl Lut {
    pub(crate) fn of(book: &Codebook) -> Self {
        let levels = 1usize << book.bits();
        let mut lut = Self {
            grid: matches!(book.levels, Levels::Grid { .. }),
            low: [0; 16],
            high: [0; 16],
            bias: 32768.0 + (levels / 2) as f32,
            values: Box::new([0.0; 256]),
        };
        for code in 0..levels {
            lut.values[code] = book.value(code as u8);
            if code < 16 {
                let [_, _, low, high] = lut.values[code].to_bits().to_le_bytes();
                (lut.low[code], lut.high[code]) = (low, high);
            }
        }
        lut
    }
}

/// In which of sixteen lanes [`Lookup::spread_bytes`] and its like put number `d` of sixteen: that of the registers that cost least.
pub(crate) const fn lane(d: usize) -> usize {
    d / 2 % 2 * 8 + d % 2 * 4 + d / 4
}

/// Operations on codes. All are unsafe as those of [`Simd`](super::Simd) are: what is named is readable or writable.
pub(crate) trait Lookup {
    /// A stream of `count` codes to a byte each; up to seven zeros follow.
    unsafe fn expand(stream: *const u8, bits: usize, count: usize, out: *mut u8);
    /// Bytes `at .. at + 16` of sixteen rows, a code each: number `c` of row `r` to `out[16 c + r]`.
    unsafe fn turn_bytes(rows: &[*const u8; 16], at: usize, lut: &Lut, out: *mut f32);
    /// The same for two codes of four bits a byte: 32 numbers of each row.
    unsafe fn turn_halves(rows: &[*const u8; 16], at: usize, lut: &Lut, out: *mut f32);
    /// 32 codes, a byte each: the first sixteen numbers to `out[0]`, the others to `out[1]`, in the order of [`lane`].
    unsafe fn spread_bytes(codes: *const u8, lut: &Lut, out: [*mut f32; 2]);
    /// The same for 16 bytes of two codes each.
    unsafe fn spread_halves(codes: *const u8, lut: &Lut, out: [*mut f32; 2]);
}

impl Lookup for Portable {
    // SAFETY (all functions): what is read and written is there, says the caller.
    #[inline(always)]
    unsafe fn expand(stream: *const u8, bits: usize, count: usize, out: *mut u8) {
        // SAFETY: as above.
        let (stream, out) = unsafe {
            (
                std::slice::from_raw_parts(stream, (count * bits).div_ceil(8)),
                std::slice::from_raw_parts_mut(out, count.next_multiple_of(8)),
            )
        };
        out[count..].fill(0);
        crate::coded::unpack(stream, bits, &mut out[..count]);
    }
    #[inline(always)]
    unsafe fn turn_bytes(rows: &[*const u8; 16], at: usize, lut: &Lut, out: *mut f32) {
        for (r, row) in rows.iter().enumerate() {
            for c in 0..16 {
                // SAFETY: as above.
                unsafe { out.add(16 * c + r).write(lut.values[usize::from(row.add(at + c).read())]) }
            }
        }
    }
    #[inline(always)]
    unsafe fn turn_halves(rows: &[*const u8; 16], at: usize, lut: &Lut, out: *mut f32) {
        for (r, row) in rows.iter().enumerate() {
            for c in 0..32 {
                // SAFETY: as above.
                unsafe { out.add(16 * c + r).write(lut.values[usize::from(half(row.add(at), c))]) }
            }
        }
    }
    #[inline(always)]
    unsafe fn spread_bytes(codes: *const u8, lut: &Lut, out: [*mut f32; 2]) {
        for d in 0..32 {
            // SAFETY: as above.
            unsafe { out[d / 16].add(lane(d % 16)).write(lut.values[usize::from(codes.add(d).read())]) }
        }
    }
    #[inline(always)]
    unsafe fn spread_halves(codes: *const u8, lut: &Lut, out: [*mut f32; 2]) {
        for d in 0..32 {
            // SAFETY: as above.
            unsafe { out[d / 16].add(lane(d % 16)).write(lut.values[usize::from(half(codes, d))]) }
        }
    }
}

/// Code `d` of a stream of four bits.
#[inline(always)]
unsafe fn half(stream: *const u8, d: usize) -> u8 {
    // SAFETY: passed on.
    unsafe { stream.add(d / 2).read() >> (d % 2 * 4) & 15 }
}

#[cfg(test)]
mod tests;
