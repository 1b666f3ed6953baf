//! Reads GGUF containers: metadata and the tensor directory, with limits.
//!
//! No tensor data is read here and nothing is dequantised; the directory says where each tensor lies, and whoever maps the file takes it from there.
//! What must stay true: every count and offset is checked against the file's size *before* anything is allocated, and no bytes whatsoever make this crate panic.
#![doc = include_str!("../README.md")]

mod error;
mod get;
mod kind;
mod read;
mod source;
mod tensor;
mod value;

pub use error::{Error, Kind, Place, Result};
pub use kind::GgmlType;
pub use read::{Gguf, MAX_DIMS, MAX_HEADER_BYTES, MAX_NAME_BYTES};
pub use tensor::TensorInfo;
pub use value::{Array, Strings, Value, ValueType};

#[cfg(test)]
mod tests;
