//! Anthropic's Messages: what they take, what they give, and the way between.

mod blocks;
mod messages;
pub(crate) mod models;
mod request;
mod wire;

pub(crate) use messages::{count, create};
