//! Codes as a stream of bits, the lowest first: code `i` of `b` bits stands in bits `i·b .. (i+1)·b`, bit `n` being bit `n mod 8` of byte
//! `n / 8`. Eight codes take `b` whole bytes, and are handled together.

/// Writes the stream; bits behind the last code are zero.
///
/// # Panics
/// When `out` is not exactly as long as the stream.
#[inline(always)]
pub(crate) fn pack(codes: &[u8], bits: usize, out: &mut [u8]) {
    assert_eq!(out.len(), (codes.len() * bits).div_ceil(8), "room for the stream");
    for (codes, out) in codes.chunks(8).zip(out.chunks_mut(bits)) {
        let mut word = 0u64;
        for (i, code) in codes.iter().enumerate() {
            word |= u64::from(*code) << (i * bits);
        }
        out.copy_from_slice(&word.to_le_bytes()[..out.len()]);
    }
}

/// Reads the stream.
///
/// # Panics
/// When `packed` is not exactly as long as the stream.
pub(crate) fn unpack(packed: &[u8], bits: usize, codes: &mut [u8]) {
    assert_eq!(packed.len(), (codes.len() * bits).div_ceil(8), "the whole stream");
    let mask = (1u64 << bits) - 1;
    for (codes, packed) in codes.chunks_mut(8).zip(packed.chunks(bits)) {
        let mut bytes = [0; 8];
        bytes[..packed.len()].copy_from_slice(packed);
        let word = u64::from_le_bytes(bytes);
        for (i, code) in codes.iter_mut().enumerate() {
            *code = (word >> (i * bits) & mask) as u8;
        }
    }
}

#[cfg(test)]
mod tests;
