//! Weights as small integer codes, in the order that the kernels read.
//!
//! A weight is `scale * (code - zero)` or `scale * code + bias`; scale and bias are shared by a group of neighbours in a row. All
//! GGUF block types and MLX's affine format are of this form, exactly. Sixteen rows make a panel. Within it tiles of four
//! columns follow one another, 64 bytes each, row after row; codes of up to four bits share bytes, one tile in the low halves and
//! the next in the high ones. Scales and biases lie in sixteens likewise. Rows beyond the last are zeros.

use std::sync::Arc;

use half::f16;

use crate::memory::Buffer;
use crate::simd::LANES;
use crate::simd::dots::{FP4, QUAD};
use crate::threads::{self, SharedMut};
use crate::{Error, Result};

/// Rows of a panel.
pub(super) const PANEL: usize = LANES;
/// The kernels go through rows in steps of this many columns.
const STEP: usize = 32;

/// What all groups of a packed matrix have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedFormat {
    /// Width of a code in bits, 1 to 8; up to 4 are kept in half a byte.
    pub bits: u32,
    /// Codes that share a scale: 16, 32, 64 or 128.
    pub group: usize,
    /// What stands for zero.
    pub zero: Zero,
    /// Whether every scale and bias is an f16 number, to be kept as such.
    pub half: bool,
}

/// Where the zero of a code lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// At one code for all: `w = scale * (code - zero)`.
    Code(u8),
    /// Anywhere: `w = scale * code + bias`, with a bias per group.
    Bias,
    /// Codes are floats of four bits (E2M1), and `w = scale * 2 * float`.
    Fp4,
}

/// One row of a matrix, to be filled in.
#[derive(Debug)]
pub struct PackedRow<'a> {
    /// One code per byte, `[K]`.
    pub codes: &'a mut [u8],
    /// `[K / group]`.
    pub scales: &'a mut [f32],
    /// `[K / group]`, or nothing where the format has none.
    pub biases: &'a mut [f32],
}

/// A packed matrix `[N, K]` in host memory.
#[derive(Clone)]
pub struct Packed {
    pub(super) group: usize,
    /// The code that stands for zero; 0 where there are biases.
    pub(super) zero: i32,
    fp4: bool,
    pub(super) scales: Numbers,         // [panels, K / group, 16]
    pub(super) biases: Option<Numbers>, // [panels, K / group, 16]
    bits: u32,
    codes: Arc<Buffer>, // [panels, K / 4, 16, 4], two to a byte if narrow
    rows: usize,
    cols: usize,
}

/// Numbers as f32, or as f16 where that loses nothing.
#[derive(Clone)]
pub(super) enum Numbers {
    F32(Vec<f32>),
    F16(Vec<f16>),
}

impl Numbers {
    fn new(numbers: Vec<f32>, half: bool) -> Self {
        match half {
            true => Self::F16(numbers.into_iter().map(f16::from_f32).collect()),
            false => Self::F32(numbers),
        }
    }

    fn get(&self, at: usize) -> f32 {
        match self {
            Self::F32(n) => n[at],
            Self::F16(n) => n[at].to_f32(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::F32(n) => 4 * n.len(),
            Self::F16(n) => 2 * n.len(),
        }
    }
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed({}x{}, {} bits, groups of {})", self.rows, self.cols, self.bits, self.group)
    }
}

/// A packed matrix with a bias per group as formats deliver it.
#[derive(Clone, Debug)]
pub struct PackedParts {
    /// Width of a code in bits, 1 to 8.
    pub bits: u32,
    /// Codes that share a scale: 16, 32, 64 or 128.
    pub group: usize,
    /// `[N, K]`; `K` is a multiple of 32 and of the group.
    pub shape: (usize, usize),
    /// One code per byte, row-major, `[N, K]`.
    pub codes: Vec<u8>,
    /// `[N, K / group]`.
    pub scales: Vec<f32>,
    /// `[N, K / group]`.
    pub biases: Vec<f32>,
}

impl Packed {
    /// Packs a matrix that is at hand as a whole.
    ///
    /// # Errors
    /// When a size does not fit the shape, or a code is wider than `bits`.
    pub fn new(parts: &PackedParts) -> Result<Self> {
        let &PackedParts { bits, group, shape: (rows, cols), ref codes, ref scales, ref biases } = parts;
        let format = PackedFormat { bits, group, zero: Zero::Bias, half: false };
        check(format, (rows, cols))?;
        let same = |what, expected: usize, found: usize| {
            if expected == found { Ok(()) } else { Err(Error::shape("packed", what, expected, found)) }
        };
        same("number of codes", rows * cols, codes.len())?;
        same("number of scales", rows * cols / group, scales.len())?;
        same("number of biases", rows * cols / group, biases.len())?;
        if bits < 8 && codes.iter().any(|c| *c >> bits != 0) {
            return Err(Error::shape("packed", "codes", format_args!("below 2^{bits}"), "a wider one"));
        }
        let groups = cols / group;
        Self::build(format, (rows, cols), |row, out| {
            out.codes.copy_from_slice(&codes[row * cols..][..cols]);
            out.scales.copy_from_slice(&scales[row * groups..][..groups]);
            out.biases.copy_from_slice(&biases[row * groups..][..groups]);
        })
    }

    /// Packs a matrix `[N, K]` that `fill` delivers row by row, from several threads at once; `K` is a multiple of 32 and of the
    /// group. Bits of a code above the format's are cut off.
    ///
    /// # Errors
    /// When the kernels have no such format.
    pub fn build(
        format: PackedFormat,
        (rows, cols): (usize, usize),
        fill: impl Fn(usize, PackedRow<'_>) + Sync,
    ) -> Result<Self> {
        check(format, (rows, cols))?;
        let PackedFormat { bits, group, zero, half } = format;
        let (panels, groups) = (rows.div_ceil(PANEL), cols / group);
        let with_bias = zero == Zero::Bias;
        let panel_bytes = PANEL * cols / if bits <= 4 { 2 } else { 1 };
        let mut codes = Buffer::new(panels * panel_bytes)?;
        let mut scales = vec![0f32; panels * groups * PANEL];
        let mut biases = vec![0f32; if with_bias { scales.len() } else { 0 }];
        let (all_codes, all_scales, all_biases) =
            (SharedMut::new(codes.bytes_mut()), SharedMut::new(&mut scales), SharedMut::new(&mut biases));
        let mask = 0x0101_0101 * ((1u32 << bits) - 1);
        let each = panels.div_ceil(8 * threads::threads()).max(1);
        threads::for_each(panels.div_ceil(each), |task| {
            let (mut row_codes, mut row_scales) = (vec![0u8; PANEL * cols], vec![0f32; PANEL * groups]);
            let mut row_biases = vec![0f32; if with_bias { PANEL * groups } else { 0 }];
            for panel in task * each..((task + 1) * each).min(panels) {
                let present = (rows - panel * PANEL).min(PANEL);
                for r in 0..present {
                    let biases = if with_bias { &mut row_biases[r * groups..][..groups] } else { &mut [][..] };
                    let (codes, scales) = (&mut row_codes[r * cols..][..cols], &mut row_scales[r * groups..][..groups]);
                    fill(panel * PANEL + r, PackedRow { codes, scales, biases });
                }
                row_codes[present * cols..].fill(0);
                row_scales[present * groups..].fill(0.0);
                // SAFETY: each panel belongs to one task.
                unsafe {
                    interleave(&row_codes, cols, (bits <= 4, mask), all_codes.slice(panel * panel_bytes, panel_bytes));
                    let at = panel * groups * PANEL;
                    sixteens(&row_scales, groups, all_scales.slice(at, groups * PANEL));
                    if with_bias {
                        row_biases[present * groups..].fill(0.0);
                        sixteens(&row_biases, groups, all_biases.slice(at, groups * PANEL));
                    }
                }
            }
        });
        let fp4 = zero == Zero::Fp4;
        let zero = match zero {
            Zero::Code(code) => i32::from(code),
            Zero::Bias => 0,
            Zero::Fp4 => i32::from(FP4[0]),
        };
        let biases = with_bias.then(|| Numbers::new(biases, half));
        Ok(Self {
            group,
            zero,
            fp4,
            scales: Numbers::new(scales, half),
            biases,
            bits,
            codes: Arc::new(codes),
            rows,
            cols,
        })
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
        self.codes.len() + self.scales.bytes() + self.biases.as_ref().map_or(0, Numbers::bytes)
    }

    /// The width class that the kernels know: 4, 6 or 8.
    pub(super) fn width(&self) -> u8 {
        match self.bits {
            ..=4 => 4,
            5 | 6 => 6,
            _ => 8,
        }
    }

    /// Whether codes are looked up before they are multiplied.
    pub(super) fn is_fp4(&self) -> bool {
        self.fp4
    }

    /// Groups of a row.
    pub(super) fn groups(&self) -> usize {
        self.cols / self.group
    }

    /// The group's size as a power of two.
    pub(super) fn shift(&self) -> u32 {
        self.group.trailing_zeros()
    }

    /// The first code of a panel.
    pub(super) fn panel(&self, panel: usize) -> *const u8 {
        self.codes.bytes()[panel * self.panel_bytes()..].as_ptr()
    }

    fn panel_bytes(&self) -> usize {
        PANEL * self.cols / if self.bits <= 4 { 2 } else { 1 }
    }

    pub(super) fn code(&self, row: usize, col: usize) -> u8 {
        let (panel, lane) = (row / PANEL * self.panel_bytes(), row % PANEL * QUAD + col % QUAD);
        let tile = col / QUAD;
        if self.bits > 4 {
            return self.codes.bytes()[panel + tile * PANEL * QUAD + lane];
        }
        let byte = self.codes.bytes()[panel + tile / 2 * PANEL * QUAD + lane];
        let code = if tile.is_multiple_of(2) { byte & 15 } else { byte >> 4 };
        if self.fp4 { FP4[usize::from(code)] } else { code }
    }

    /// Scale and bias of a weight.
    pub(super) fn affine(&self, row: usize, col: usize) -> (f32, f32) {
        let at = (row / PANEL * self.groups() + col / self.group) * PANEL + row % PANEL;
        (self.scales.get(at), self.biases.as_ref().map_or(0.0, |b| b.get(at)))
    }

    /// One row as f32; the obvious version, used for look-ups and as the reference.
    pub(super) fn row_into(&self, row: usize, out: &mut [f32]) {
        for (col, out) in out.iter_mut().enumerate() {
            let (scale, bias) = self.affine(row, col);
            *out = scale.mul_add((i32::from(self.code(row, col)) - self.zero) as f32, bias);
        }
    }
}

fn check(PackedFormat { bits, group, zero, .. }: PackedFormat, (_, cols): (usize, usize)) -> Result<()> {
    if zero == Zero::Fp4 && bits != 4 {
        return Err(Error::shape("packed", "bits of floats", 4, bits));
    }
    if !matches!(group, 16 | 32 | 64 | 128) {
        return Err(Error::shape("packed", "group", "16, 32, 64 or 128", group));
    }
    if !(1..=8).contains(&bits) {
        return Err(Error::shape("packed", "bits", "1 to 8", bits));
    }
    if cols % group.max(STEP) != 0 {
        return Err(Error::shape("packed", "columns: a multiple of", group.max(STEP), cols));
    }
    Ok(())
}

/// Sixteen rows of codes to tiles of four columns.
fn interleave(rows: &[u8], cols: usize, (narrow, mask): (bool, u32), out: &mut [u8]) {
    let four = |row: usize, tile: usize| {
        let at = row * cols + tile * QUAD;
        u32::from_le_bytes([rows[at], rows[at + 1], rows[at + 2], rows[at + 3]]) & mask
    };
    for (tile, out) in out.chunks_exact_mut(PANEL * QUAD).enumerate() {
        for (row, out) in out.chunks_exact_mut(QUAD).enumerate() {
            let codes = if narrow { four(row, 2 * tile) | four(row, 2 * tile + 1) << 4 } else { four(row, tile) };
            out.copy_from_slice(&codes.to_le_bytes());
        }
    }
}

/// Sixteen rows of numbers, the same group of all rows side by side.
fn sixteens(rows: &[f32], groups: usize, out: &mut [f32]) {
    for (group, out) in out.chunks_exact_mut(PANEL).enumerate() {
        for (row, out) in out.iter_mut().enumerate() {
            *out = rows[row * groups + group];
        }
    }
}
