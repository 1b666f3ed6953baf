//! Tensor operations that candle lacks, on CPU, CUDA and Metal.
#![doc = include_str!("../README.md")]
//!
//! Every op exists twice: `reference`, made of plain candle operations, which runs on every device and never goes away, and a
//! fast version per device that is tested against it. Activations are f32 `[T, ..]` with one token per row; a row's result
//! never depends on the other rows of the call, bit for bit on the CPU.

mod act;
mod attention;
mod coded;
mod device;
mod dispatch;
mod error;
mod hadamard;
mod host;
mod linear;
mod memory;
mod moe;
mod norm;
mod pages;
mod raw;
mod rope;
mod simd;
mod slots;
mod threads;

pub use act::{Act, gated};
pub use attention::{Attend, CodedPool, Pool, RowView, attention, attention_coded};
pub use coded::{Codebook, Coded, Coding, read_codes, write_codes};
pub use device::device_by_name;
pub use dispatch::{Kernels, kernels, set_kernels};
pub use error::{Error, Result};
pub use hadamard::{Part, ROTATION_VERSION, Rotation};
pub use linear::{Linear, Packed, PackedFormat, PackedParts, PackedRow, Zero};
pub use moe::{Expert, Experts, Groups, Router, Routes, Score, route};
pub use norm::{add_rms_norm, rms_norm};
pub use omlx_blocks::Reach;
pub use pages::{empty_pool, give_back, gives_back};
pub use raw::write_raw;
pub use rope::{Rope, RopeScaling, RopeSpec, RopeTable, Yarn, apply_rope};
pub use slots::write_slots;
pub use threads::{set_threads, threads};
