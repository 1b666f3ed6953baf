//! There and back, and the bytes themselves.

use super::*;

/// Seen to fail: the highest bit first.
#[test]
fn the_lowest_bits_come_first() {
    let mut out = [0; 3];
    pack(&[0, 1, 2, 3, 4, 5, 6, 7], 3, &mut out);
    assert_eq!(out, [0x88, 0xc6, 0xfa]);
    let mut out = [0; 2];
    pack(&[1, 2, 15], 4, &mut out);
    assert_eq!(out, [0x21, 0x0f]);
}

#[test]
fn there_and_back() {
    for bits in 1..=8usize {
        for count in [1, 3, 7, 8, 9, 16, 31, 64, 100, 128] {
            let codes: Vec<u8> = (0..count).map(|i| (i * 37 + i / 5) as u8 & ((1u32 << bits) - 1) as u8).collect();
            let mut packed = vec![0xff; (count * bits).div_ceil(8)];
            pack(&codes, bits, &mut packed);
            let mut back = vec![0; count];
            unpack(&packed, bits, &mut back);
            assert_eq!(codes, back, "{bits} bits, {count} codes");
        }
    }
}
