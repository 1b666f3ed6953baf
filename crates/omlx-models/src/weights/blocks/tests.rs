//! Each format against a scalar reading of its description, and against values that the gguf package (0.19.0) computed.
//!
//! A fault seen to be caught: high and low nibbles swapped.

use candle_core::{DType, Device};
use half::f16;
use omlx_gguf::GgmlType;
use omlx_ops::Linear;

use super::pack;

const KINDS: [(GgmlType, &[usize]); 8] = [
    (GgmlType::Q4_0, &[0]),
    (GgmlType::Q4_1, &[0, 2]),
    (GgmlType::Q5_0, &[0]),
    (GgmlType::Q5_1, &[0, 2]),
    (GgmlType::Q8_0, &[0]),
    (GgmlType::Q4K, &[0, 2]),
    (GgmlType::Q5K, &[0, 2]),
    (GgmlType::Q6K, &[208]),
];

/// Pseudo-random blocks whose halves, at `halves`, are ordinary numbers.
fn random(kind: GgmlType, halves: &[usize], blocks: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut byte = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    let mut all = Vec::new();
    for _ in 0..blocks {
        let mut block: Vec<u8> = (0..kind.block_bytes()).map(|_| byte()).collect();
        halves.iter().for_each(|h| block[h + 1] = block[h + 1] & 0x83 | 0x28);
        all.extend(block);
    }
    all
}

fn decode(kind: GgmlType, data: &[u8], rows: usize, cols: usize) -> Vec<f32> {
    let packed = pack(kind, data, (rows, cols), None).unwrap().unwrap();
    let matrix = Linear::packed(packed, None).unwrap().dequantize().unwrap();
    assert_eq!((matrix.dims(), matrix.dtype()), (&[rows, cols][..], DType::F32));
    assert!(matrix.device().same_device(&Device::Cpu));
    matrix.flatten_all().unwrap().to_vec1().unwrap()
}

/// Value `i` of a block, read as the format is described, one value at a time.
fn naive(kind: GgmlType, b: &[u8], i: usize) -> f32 {
    let f = |at: usize| f64::from(f16::from_le_bytes([b[at], b[at + 1]]));
    let nibble = |from: usize| f64::from(if i < 16 { b[from + i] % 16 } else { b[from + i - 16] / 16 });
    let bit = |from: usize| {
        let word = u32::from_le_bytes([b[from], b[from + 1], b[from + 2], b[from + 3]]);
        f64::from(word >> i & 1)
    };
    let group = i / 32;
    // Scale and minimum of a group of a K format: six bits each, the first four plain, the others split.
    let six = |minimum: usize| {
        let s = |k: usize| b[4 + k];
        f64::from(match (group, minimum) {
            (0..4, m) => s(group + 4 * m) % 64,
            (_, 0) => s(group + 4) % 16 + 16 * (s(group - 4) / 64),
            (_, _) => s(group + 4) / 16 + 16 * (s(group) / 64),
        })
    };
    let k_nibble = |from: usize| {
        let byte = b[from + 32 * (i / 64) + i % 32];
        f64::from(if group.is_multiple_of(2) { byte % 16 } else { byte / 16 })
    };
    let value = match kind {
        GgmlType::Q4_0 => f(0) * (nibble(2) - 8.0),
        GgmlType::Q4_1 => f(0) * nibble(4) + f(2),
        GgmlType::Q5_0 => f(0) * (nibble(6) + 16.0 * bit(2) - 16.0),
        GgmlType::Q5_1 => f(0) * (nibble(8) + 16.0 * bit(4)) + f(2),
        GgmlType::Q8_0 => f(0) * f64::from(b[2 + i] as i8),
        GgmlType::Q4K => f(0) * six(0) * k_nibble(16) - f(2) * six(1),
        GgmlType::Q5K => {
            let fifth = f64::from(b[16 + i % 32] >> group & 1);
            f(0) * six(0) * (k_nibble(48) + 16.0 * fifth) - f(2) * six(1)
        }
        GgmlType::Q6K => {
            let (half, run, at) = (i / 128, i % 128 / 32, i % 32);
            let low = b[64 * half + 32 * (run % 2) + at];
            let low = if run < 2 { low % 16 } else { low / 16 };
            let high = b[128 + 32 * half + at] >> (2 * run) & 3;
            let scale = f64::from(b[192 + i / 16] as i8);
            f(208) * scale * (f64::from(low) + 16.0 * f64::from(high) - 32.0)
        }
        other => panic!("{other:?}"),
    };
    value as f32
}

#[test]
fn equals_the_scalar_reading_bit_for_bit() {
    for (kind, halves) in KINDS {
        let (rows, cols) = (6, 2 * kind.block_elems());
        let data = random(kind, halves, 12);
        let decoded = decode(kind, &data, rows, cols);
        let blocks = data.chunks(kind.block_bytes());
        let expected = blocks.flat_map(|b| (0..kind.block_elems()).map(move |i| naive(kind, b, i)));
        for (i, (got, want)) in decoded.iter().zip(expected).enumerate() {
            assert_eq!(*got, want, "{} value {i}", kind.name());
        }
    }
}

/// FNV-1a over the values' bits, of six blocks in a row.
#[test]
fn equals_the_reference_package() {
    let expected: [u64; 8] = [
        0x60b4f7abca6b3ae6,
        0x4d32c692068304ec,
        0x0a770df7626bc754,
        0xa2b51dfa13a3f9cb,
        0x9a4ceeecdd03723f,
        0x49f720ba5b671d05,
        0x36d965516fc9bf16,
        0x32f25947f086ea36,
    ];
    for ((kind, halves), expected) in KINDS.into_iter().zip(expected) {
        let decoded = decode(kind, &random(kind, halves, 6), 1, 6 * kind.block_elems());
        // Adding zero makes no difference but to the sign of zero.
        let bytes = decoded.iter().flat_map(|v| (v + 0.0).to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        assert_eq!(hash, expected, "{}", kind.name());
    }
}

#[test]
fn rows_come_in_the_order_asked_for() {
    let (kind, rows, cols) = (GgmlType::Q5_0, 37, 64);
    let data = random(kind, &[0], rows * cols / 32);
    let order: Vec<usize> = (0..rows).map(|row| row * 5 % rows).collect();
    let packed = pack(kind, &data, (rows, cols), Some(&order)).unwrap().unwrap();
    let moved = Linear::packed(packed, None).unwrap().dequantize().unwrap().to_vec2::<f32>().unwrap();
    let plain = decode(kind, &data, rows, cols);
    for (moved, row) in moved.iter().zip(order) {
        assert_eq!(moved, &plain[row * cols..][..cols]);
    }
}

#[test]
fn shares_of_several_threads_join() {
    // More rows than one task takes.
    let (rows, cols) = (64, 32 * 1024);
    let kind = GgmlType::Q4_1;
    let data = random(kind, &[0, 2], rows * cols / 32);
    let decoded = decode(kind, &data, rows, cols);
    for block in [0, 16_383, 16_384, 32_767, 32_768, rows * cols / 32 - 1] {
        let bytes = &data[block * 20..][..20];
        for i in [0, 31] {
            assert_eq!(decoded[block * 32 + i], naive(kind, bytes, i), "block {block}");
        }
    }
}

#[test]
fn other_types_are_refused() {
    assert!(pack(GgmlType::Q2K, &[0; 84], (1, 256), None).is_none());
}
