//! Every instruction set against the portable one, to the bit.

use super::*;
use crate::coded::tests::book;
use crate::simd::{Isa, for_isa};

fn bytes(count: usize, mask: u8) -> Vec<u8> {
    (0..count).map(|i| (i * i * 7 + i * 13 + i / 11) as u8 & mask).collect()
}

#[inline(always)]
unsafe fn expanded<S: Lookup>(stream: &[u8], bits: usize, count: usize, out: &mut Vec<u8>) {
    out.resize(count.next_multiple_of(8), 0xee);
    // SAFETY: the stream has as many codes, and there is room for them.
    unsafe { S::expand(stream.as_ptr(), bits, count, out.as_mut_ptr()) }
}

#[test]
fn streams_expand() {
    for bits in 1..=8usize {
        for count in [1, 7, 8, 20, 64, 100] {
            let stream = bytes((count * bits).div_ceil(8), 0xff);
            let mut expected = vec![0; count];
            crate::coded::unpack(&stream, bits, &mut expected);
            for isa in Isa::available() {
                let (stream, out) = (&stream[..], &mut Vec::new());
                for_isa!(isa, expanded::<>(stream: &[u8], bits: usize, count: usize, out: &mut Vec<u8>));
                assert_eq!(out[..count], expected, "{isa:?}: {bits} bits, {count}");
            }
        }
    }
}

#[inline(always)]
unsafe fn all<S: Lookup>(codes: &[u8], halves: bool, lut: &Lut, out: &mut [f32; 512]) {
    let mut rows = [codes.as_ptr(); 16];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = codes[r * 40..].as_ptr();
    }
    let parts = [out.as_mut_ptr(), out[16..].as_mut_ptr()];
    let spread = [out[480..].as_mut_ptr(), out[496..].as_mut_ptr()];
    // SAFETY: forty bytes a row, and room for 32 columns of which the last two are written again.
    unsafe {
        if halves {
            S::turn_halves(&rows, 24, lut, parts[0]);
            S::spread_halves(codes.as_ptr(), lut, spread);
        } else {
            S::turn_bytes(&rows, 24, lut, parts[0]);
            S::spread_bytes(codes.as_ptr(), lut, spread);
        }
    }
}

/// Seen to fail: rows loaded in their natural order.
#[test]
fn look_ups_agree() {
    for bits in [2, 3, 4, 6, 8] {
        let (book, mask) = (book(bits), ((1u32 << bits) - 1) as u8);
        let lut = &Lut::of(&book);
        for halves in [false, true] {
            if halves && bits != 4 {
                continue;
            }
            let codes = &bytes(16 * 40 + 16, if halves { 0xff } else { mask })[..];
            let mut expected = [0.0; 512];
            // SAFETY: needs no features.
            unsafe { all::<Portable>(codes, halves, lut, &mut expected) };
            let of = |d: usize| book.value(if halves { codes[d / 2] >> (d % 2 * 4) & 15 } else { codes[d] });
            for d in 0..32 {
                assert_eq!(expected[480 + d / 16 * 16 + lane(d % 16)], of(d));
            }
            for isa in Isa::available() {
                let mut found = [0.0; 512];
                let out = &mut found;
                for_isa!(isa, all::<>(codes: &[u8], halves: bool, lut: &Lut, out: &mut [f32; 512]));
                assert_eq!(found, expected, "{isa:?}: {bits} bits, halves: {halves}");
            }
        }
    }
}
