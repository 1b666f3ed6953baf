//! Weights as small integer codes: `w = scale * code + bias`, scale and bias shared by a group of neighbours in a row.
//!
//! All GGUF block types and MLX's affine format are of this form, exactly. Four-bit codes are stored in the order the SIMD
//! kernels read: of every 32 codes, byte `i` holds code `i` below and code `i + 16` above.

use crate::{Error, Result};

/// A packed matrix `[N, K]` in host memory.
#[derive(Clone)]
pub struct Packed {
    pub(super) bits: Bits,
    pub(super) group: usize,
    pub(super) codes: Vec<u8>,
    pub(super) scales: Vec<f32>, // [N, K / group]
    pub(super) biases: Vec<f32>, // [N, K / group]
    rows: usize,
    cols: usize,
}

/// Width of a stored code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bits {
    Four,
    Eight,
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed({}x{}, {:?} bits, groups of {})", self.rows, self.cols, self.bits, self.group)
    }
}

/// The parts of a packed matrix as formats deliver them.
#[derive(Clone, Debug)]
pub struct PackedParts {
    /// Largest width of a code in bits: up to 4 is stored in nibbles, up to 8 in bytes.
    pub bits: u32,
    /// Codes that share a scale: 16, 32, 64 or 128.
    pub group: usize,
    /// `[N, K]`.
    pub shape: (usize, usize),
    /// One code per byte, row-major, `[N, K]`.
    pub codes: Vec<u8>,
    /// `[N, K / group]`.
    pub scales: Vec<f32>,
    /// `[N, K / group]`.
    pub biases: Vec<f32>,
}

impl Packed {
    /// Takes the parts over, in the order that the kernels want.
    ///
    /// # Errors
    /// When a size does not fit the shape, or a code is wider than `bits`.
    pub fn new(parts: PackedParts) -> Result<Self> {
        let PackedParts { bits, group, shape: (rows, cols), codes, scales, biases } = parts;
        let check = |what, expected: usize, found: usize| {
            if expected == found { Ok(()) } else { Err(Error::shape("packed", what, expected, found)) }
        };
        if !matches!(group, 16 | 32 | 64 | 128) {
            return Err(Error::shape("packed", "group", "16, 32, 64 or 128", group));
        }
        if cols % group != 0 {
            return Err(Error::shape("packed", "columns: a multiple of the group", group, cols));
        }
        if !(1..=8).contains(&bits) {
            return Err(Error::shape("packed", "bits", "1 to 8", bits));
        }
        check("number of codes", rows * cols, codes.len())?;
        check("number of scales", rows * cols / group, scales.len())?;
        check("number of biases", rows * cols / group, biases.len())?;
        if bits < 8 && codes.iter().any(|c| *c >> bits != 0) {
            return Err(Error::shape("packed", "codes", format_args!("below 2^{bits}"), "a wider one"));
        }
        let (bits, codes) =
            if bits <= 4 && cols % 32 == 0 { (Bits::Four, nibbles(&codes)) } else { (Bits::Eight, codes) };
        Ok(Self { bits, group, codes, scales, biases, rows, cols })
    }

    /// `N`.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// `K`.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.codes.len() + 4 * (self.scales.len() + self.biases.len())
    }

    fn code(&self, row: usize, col: usize) -> u8 {
        let at = row * self.cols + col;
        match self.bits {
            Bits::Eight => self.codes[at],
            Bits::Four => {
                let (block, place) = (at / 32, at % 32);
                let byte = self.codes[block * 16 + place % 16];
                if place < 16 { byte & 15 } else { byte >> 4 }
            }
        }
    }

    /// One row as f32; the obvious version, used for look-ups and as the reference.
    pub(super) fn row_into(&self, row: usize, out: &mut [f32]) {
        for (col, out) in out.iter_mut().enumerate() {
            let at = (row * self.cols + col) / self.group;
            *out = self.scales[at].mul_add(f32::from(self.code(row, col)), self.biases[at]);
        }
    }
}

fn nibbles(codes: &[u8]) -> Vec<u8> {
    codes.chunks_exact(32).flat_map(|block| (0..16).map(|i| block[i] | block[i + 16] << 4)).collect()
}
