//! The ways ggml stores a tensor's values: number, name and block layout of each.

/// How a tensor's values are stored. Decoding is the reader's business; the container needs only the sizes.
#[expect(missing_docs, reason = "the names are ggml's own, see `name`")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GgmlType {
    F32,
    F16,
    BF16,
    F64,
    I8,
    I16,
    I32,
    I64,
    Q1_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
    Iq1S,
    Iq1M,
    Iq2Xxs,
    Iq2Xs,
    Iq2S,
    Iq3Xxs,
    Iq3S,
    Iq4Nl,
    Iq4Xs,
    Tq1_0,
    Tq2_0,
    Mxfp4,
    Nvfp4,
}

use GgmlType as G;

/// Type, number in the file, ggml's name, values in a block, bytes of a block. Numbers that ggml has withdrawn (4, 5, 31-33, 36-38) are unknown.
const TABLE: &[(GgmlType, u32, &str, usize, usize)] = &[
    (G::F32, 0, "F32", 1, 4),
    (G::F16, 1, "F16", 1, 2),
    (G::Q4_0, 2, "Q4_0", 32, 18),
    (G::Q4_1, 3, "Q4_1", 32, 20),
    (G::Q5_0, 6, "Q5_0", 32, 22),
    (G::Q5_1, 7, "Q5_1", 32, 24),
    (G::Q8_0, 8, "Q8_0", 32, 34),
    (G::Q8_1, 9, "Q8_1", 32, 36),
    (G::Q2K, 10, "Q2_K", 256, 84),
    (G::Q3K, 11, "Q3_K", 256, 110),
    (G::Q4K, 12, "Q4_K", 256, 144),
    (G::Q5K, 13, "Q5_K", 256, 176),
    (G::Q6K, 14, "Q6_K", 256, 210),
    (G::Q8K, 15, "Q8_K", 256, 292),
    (G::Iq2Xxs, 16, "IQ2_XXS", 256, 66),
    (G::Iq2Xs, 17, "IQ2_XS", 256, 74),
    (G::Iq3Xxs, 18, "IQ3_XXS", 256, 98),
    (G::Iq1S, 19, "IQ1_S", 256, 50),
    (G::Iq4Nl, 20, "IQ4_NL", 32, 18),
    (G::Iq3S, 21, "IQ3_S", 256, 110),
    (G::Iq2S, 22, "IQ2_S", 256, 82),
    (G::Iq4Xs, 23, "IQ4_XS", 256, 136),
    (G::I8, 24, "I8", 1, 1),
    (G::I16, 25, "I16", 1, 2),
    (G::I32, 26, "I32", 1, 4),
    (G::I64, 27, "I64", 1, 8),
    (G::F64, 28, "F64", 1, 8),
    (G::Iq1M, 29, "IQ1_M", 256, 56),
    (G::BF16, 30, "BF16", 1, 2),
    (G::Tq1_0, 34, "TQ1_0", 256, 54),
    (G::Tq2_0, 35, "TQ2_0", 256, 66),
    (G::Mxfp4, 39, "MXFP4", 32, 17),
    (G::Nvfp4, 40, "NVFP4", 64, 36),
    (G::Q1_0, 41, "Q1_0", 128, 18),
];

impl GgmlType {
    /// The type with this number in a file.
    pub fn from_id(id: u32) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == id).map(|row| row.0)
    }

    /// ggml's name for it, as in `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Values in one block; 1 for plain types.
    pub fn block_elems(self) -> usize {
        self.row().3
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> usize {
        self.row().4
    }

    fn row(self) -> &'static (GgmlType, u32, &'static str, usize, usize) {
        TABLE.iter().find(|row| row.0 == self).expect("every type has a row in the table")
    }
}

impl std::fmt::Display for GgmlType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
