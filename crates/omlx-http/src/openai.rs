//! OpenAI's routes: what they take, what they give, and the way between.

mod ask;
pub(crate) mod chat;
pub(crate) mod completions;
mod deliver;
mod messages;
pub(crate) mod models;
pub(crate) mod probe;
mod refuse;
mod start;
mod tools;
mod wire;

pub(crate) use ask::Ask;
pub(crate) use chat::short_ids;
pub(crate) use models::open;
pub(crate) use start::{Prompt, Terms, start};
