//! What a model wrote, taken apart as it comes: thinking, tool calls, content.
//!
//! A [`Parser`] takes the text of one answer in any parts and gives [`Piece`]s; which [`Markup`] it reads follows from the model's
//! chat template. No tokens, no tensors and no network here. What must stay true: the pieces are the same however the text was
//! cut, and no text is lost: what is no call is content.
#![doc = include_str!("../README.md")]

mod format;
mod gemma;
mod harmony;
mod headed;
mod json;
mod literal;
mod machine;
mod marks;
mod parser;
mod piece;
mod python;
mod span;
mod tagged;
mod tool;

pub use format::{Format, Markup, Thinking, UnknownName};
pub use parser::{Parser, Start};
pub use piece::Piece;
pub use tool::Tool;
