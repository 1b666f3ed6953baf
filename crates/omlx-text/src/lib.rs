//! Text to token ids and back: tokenizer, chat template, stop strings.
//!
//! A [`TextModel`] is loaded once from a model folder or a GGUF file and shared; each request takes a
//! [`Session`] from it that turns ids into text. Nothing here knows about tensors or the network.
#![doc = include_str!("../README.md")]

mod chat;
mod decode;
mod defaults;
mod ends;
mod error;
mod export;
mod folder;
mod gguf_vocab;
mod model;
mod pieces;
mod session;
mod spm;
mod stops;
mod template;
mod tokenizer;

pub use chat::Chat;
pub use defaults::SamplingDefaults;
pub use error::{Error, Result};
pub use export::export_gguf;
pub use model::TextModel;
pub use session::{Piece, Session};
pub use tokenizer::{MAX_TEXT_BYTES, is_trying};
