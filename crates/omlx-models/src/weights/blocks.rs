//! ggml's block formats as codes with a scale per group, and a bias where the format has one, exactly.
//!
//! Every format here is affine within 16 or 32 values: `w = scale * (code - zero)` or `w = scale * code + bias`. The stored halves have 11 significant bits
//! and the sub-scales at most 8, so every product below is exact in f32, and a weight is rounded once at most, where ggml
//! rounds it too. Codes are unsigned.

use half::f16;
use omlx_gguf::GgmlType;
use omlx_ops::{Packed, PackedFormat, PackedRow, Result, Zero};

/// A format that unpacks.
struct Format {
    /// Values in a block.
    elems: usize,
    /// Bytes of a block.
    bytes: usize,
    packed: PackedFormat,
    /// Reads one block.
    read: fn(&[u8], &mut PackedRow<'_>),
}

fn format(kind: GgmlType) -> Option<Format> {
    let (bits, group, zero, half, read): (_, _, _, _, fn(&[u8], &mut PackedRow<'_>)) = match kind {
        GgmlType::Q4_0 => (4, 32, Zero::Code(8), true, q4_0),
        GgmlType::Q4_1 => (4, 32, Zero::Bias, true, q4_1),
        GgmlType::Q5_0 => (5, 32, Zero::Code(16), true, q5_0),
        GgmlType::Q5_1 => (5, 32, Zero::Bias, true, q5_1),
        GgmlType::Q8_0 => (8, 32, Zero::Code(128), true, q8_0),
        GgmlType::Q4K => (4, 32, Zero::Bias, false, q4_k),
        GgmlType::Q5K => (5, 32, Zero::Bias, false, q5_k),
        GgmlType::Q6K => (6, 16, Zero::Code(32), false, q6_k),
        _ => return None,
    };
    let packed = PackedFormat { bits, group, zero, half };
    Some(Format { elems: kind.block_elems(), bytes: kind.block_bytes(), packed, read })
}

/// Packs a matrix of blocks, its rows in the order given; none for a type that is not one of these.
pub(crate) fn pack(
    kind: GgmlType,
    data: &[u8],
    dims: (usize, usize),
    order: Option<&[usize]>,
) -> Option<Result<Packed>> {
    let Format { elems, bytes, packed, read } = format(kind)?;
    let (rows, cols) = dims;
    let stride = cols / elems * bytes;
    assert_eq!(data.len(), rows * stride, "the container checks lengths");
    let groups = elems / packed.group;
    Some(Packed::build(packed, dims, |row, out| {
        let row = order.map_or(row, |order| order[row]);
        let blocks = data[row * stride..][..stride].chunks_exact(bytes);
        for (i, (data, codes)) in blocks.zip(out.codes.chunks_exact_mut(elems)).enumerate() {
            let scales = &mut out.scales[i * groups..][..groups];
            let biases = if out.biases.is_empty() { &mut [][..] } else { &mut out.biases[i * groups..][..groups] };
            read(data, &mut PackedRow { codes, scales, biases });
        }
    }))
}

fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// Low nibbles are the first half of the values, high nibbles the second.
fn nibbles(bytes: &[u8], codes: &mut [u8]) {
    let (low, high) = codes.split_at_mut(bytes.len());
    for ((b, l), h) in bytes.iter().zip(low).zip(high) {
        (*l, *h) = (b & 15, b >> 4);
    }
}

/// The fifth bit of each value, one bit per value.
fn fifth_bits(bytes: &[u8], codes: &mut [u8]) {
    codes.iter_mut().enumerate().for_each(|(i, c)| *c |= (bytes[i / 8] >> (i % 8) & 1) << 4);
}

/// scale, 16 bytes of nibbles; value = (code - 8) scale.
fn q4_0(b: &[u8], out: &mut PackedRow<'_>) {
    nibbles(&b[2..18], out.codes);
    out.scales[0] = half(b);
}

/// scale, minimum, 16 bytes of nibbles; value = code scale + minimum.
fn q4_1(b: &[u8], out: &mut PackedRow<'_>) {
    nibbles(&b[4..20], out.codes);
    (out.scales[0], out.biases[0]) = (half(b), half(&b[2..]));
}

/// scale, 32 fifth bits, 16 bytes of nibbles; value = (code - 16) scale.
fn q5_0(b: &[u8], out: &mut PackedRow<'_>) {
    nibbles(&b[6..22], out.codes);
    fifth_bits(&b[2..6], out.codes);
    out.scales[0] = half(b);
}

/// scale, minimum, 32 fifth bits, 16 bytes of nibbles; value = code scale + minimum.
fn q5_1(b: &[u8], out: &mut PackedRow<'_>) {
    nibbles(&b[8..24], out.codes);
    fifth_bits(&b[4..8], out.codes);
    (out.scales[0], out.biases[0]) = (half(b), half(&b[2..]));
}

/// scale, 32 signed bytes; value = byte scale. The code is the byte + 128.
fn q8_0(b: &[u8], out: &mut PackedRow<'_>) {
    b[2..34].iter().zip(out.codes.iter_mut()).for_each(|(b, c)| *c = b ^ 0x80);
    out.scales[0] = half(b);
}

/// The 6-bit scale and minimum of each of 8 groups, from 12 bytes.
fn k_scales(b: &[u8], out: &mut PackedRow<'_>) {
    let (d, min, s) = (half(b), half(&b[2..]), &b[4..16]);
    for j in 0..8 {
        let (scale, bias) = match j {
            0..4 => (s[j] & 63, s[j + 4] & 63),
            _ => (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4),
        };
        (out.scales[j], out.biases[j]) = (d * f32::from(scale), -(min * f32::from(bias)));
    }
}

/// scale, minimum, 12 bytes of 6-bit scales and minima, 4 x 32 bytes of nibbles for two groups each.
fn q4_k(b: &[u8], out: &mut PackedRow<'_>) {
    k_scales(b, out);
    b[16..144].chunks_exact(32).zip(out.codes.chunks_exact_mut(64)).for_each(|(b, c)| nibbles(b, c));
}

/// As Q4_K with 32 bytes of fifth bits before the nibbles: bit g of byte i belongs to value i of group g.
fn q5_k(b: &[u8], out: &mut PackedRow<'_>) {
    k_scales(b, out);
    b[48..176].chunks_exact(32).zip(out.codes.chunks_exact_mut(64)).for_each(|(b, c)| nibbles(b, c));
    for (g, codes) in out.codes.chunks_exact_mut(32).enumerate() {
        codes.iter_mut().zip(&b[16..48]).for_each(|(c, b)| *c |= (b >> g & 1) << 4);
    }
}

/// 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales, scale; value = (code - 32) scale. Each half of 128
/// values takes 64 and 32 of the bytes, in four runs of 32 values.
fn q6_k(b: &[u8], out: &mut PackedRow<'_>) {
    let d = half(&b[208..]);
    for (h, codes) in out.codes.chunks_exact_mut(128).enumerate() {
        let (low, high) = (&b[64 * h..][..64], &b[128 + 32 * h..][..32]);
        for i in 0..32 {
            codes[i] = low[i] & 15 | (high[i] & 3) << 4;
            codes[i + 32] = low[i + 32] & 15 | (high[i] >> 2 & 3) << 4;
            codes[i + 64] = low[i] >> 4 | (high[i] >> 4 & 3) << 4;
            codes[i + 96] = low[i + 32] >> 4 | (high[i] >> 6) << 4;
        }
    }
    for (j, s) in b[192..208].iter().enumerate() {
        out.scales[j] = d * f32::from(*s as i8);
    }
}

#[cfg(test)]
mod tests;
