//! One transformer, many tables: Llama, Qwen, Gemma, Phi and their relatives.
//!
//! `load` turns a model folder or a GGUF file into a `Transformer`. Architectures are data (`arch`): from a config to a
//! `Spec`, and from parts to tensor names. Nothing here knows text, and nothing decides which token runs when.
//! Weights stay in the precision they are stored in; activations, norms, rotary tables and logits are f32.
#![doc = include_str!("../README.md")]

pub mod arch;
mod attention;
mod block;
pub mod config;
#[cfg(any(test, feature = "testing"))]
mod echo;
mod error;
mod ffn;
mod files;
mod load;
mod model;
mod moe;
pub mod spec;
mod transformer;
pub mod weights;

#[cfg(any(test, feature = "testing"))]
pub use echo::EchoModel;
/// Counted up with every change that may move a result by a bit: what was computed before must not be mixed with what is computed now.
pub const NUMERICS: u32 = 1;

pub use error::{Error, HeaderFault, Result, Warning};
pub use load::{LoadOptions, Loaded, ModelCard, check, load};
pub use model::Model;
pub use transformer::Transformer;
