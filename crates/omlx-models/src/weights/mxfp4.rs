//! MXFP4 as gpt-oss stores it: floats of four bits, the first of each two in the low half, and a power of two for each 32.

use omlx_ops::{Packed, PackedFormat, PackedRow, Result, Zero};

/// Numbers that share a power of two.
pub(crate) const GROUP: usize = 32;
/// Exponents are stored with this added; one more, as codes stand for twice their numbers.
const BIAS: i32 = 127 + 1;

/// Packs `[N, K / 32, 16]` bytes of codes with `[N, K / 32]` exponents, rows in the order given.
pub(crate) fn pack(codes: &[u8], exponents: &[u8], dims: (usize, usize), order: Option<&[usize]>) -> Result<Packed> {
    let format = PackedFormat { bits: 4, group: GROUP, zero: Zero::Fp4, half: false };
    let (width, groups) = (dims.1 / 2, dims.1 / GROUP);
    Packed::build(format, dims, |row, out: PackedRow<'_>| {
        let row = order.map_or(row, |order| order[row]);
        for (two, byte) in out.codes.chunks_exact_mut(2).zip(&codes[row * width..][..width]) {
            (two[0], two[1]) = (byte & 15, byte >> 4);
        }
        for (scale, exponent) in out.scales.iter_mut().zip(&exponents[row * groups..][..groups]) {
            // 255 stands for no number.
            *scale = if *exponent == u8::MAX { f32::NAN } else { 2f32.powi(i32::from(*exponent) - BIAS) };
        }
    })
}

#[cfg(test)]
mod tests {
    use omlx_ops::Linear;

    use super::*;

    /// Caught: the high half first; exponents without the halving.
    #[test]
    fn every_code_in_every_row() {
        let codes: Vec<u8> = (0..8u8).map(|i| (2 * i) | (2 * i + 1) << 4).collect();
        let codes = codes.repeat(2).repeat(3);
        let packed = pack(&codes, &[127, 100, 130], (3, 32), Some(&[2, 1, 0])).unwrap();
        let rows = Linear::packed(packed, None).unwrap().dequantize().unwrap().to_vec2::<f32>().unwrap();
        let positive = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        let values: Vec<f32> = positive.iter().copied().chain(positive.iter().map(|v| -v)).collect();
        for (row, scale) in rows.iter().zip([8.0, 2f32.powi(-27), 1.0]) {
            let expected: Vec<f32> = values.iter().map(|v| v * scale).collect();
            assert_eq!(row[..16], expected);
            assert_eq!(row[16..], expected);
        }
    }

    #[test]
    fn the_exponent_that_is_no_number_shows() {
        let packed = pack(&[0x22; 16], &[255], (1, 32), None).unwrap();
        let row = Linear::packed(packed, None).unwrap().dequantize().unwrap().to_vec2::<f32>().unwrap().remove(0);
        assert!(row.iter().all(|w| w.is_nan()));
    }
}
