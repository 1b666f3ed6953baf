//! Kernel text for Metal and CUDA.
#![doc = include_str!("../README.md")]

/// The kernels of one op in each language.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The op's name, the same word as its module in omlx-ops.
    pub op: &'static str,
    /// Metal Shading Language, compiled when first used.
    pub metal: &'static str,
    /// CUDA C++, compiled by nvcc at build time.
    pub cuda: &'static str,
}

/// Every op that has kernels.
pub const ALL: &[Source] =
    &[Source { op: "slots", metal: include_str!("../metal/slots.metal"), cuda: include_str!("../cuda/slots.cu") }];
