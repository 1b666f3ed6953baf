//! The APIs of OpenAI and Anthropic over HTTP, for any engine that speaks omlx-api.
//!
//! Words come in as JSON, token ids go to an engine through its handle, and text goes out, whole or as server-sent
//! events. No tensors, no model files and no sockets here: the caller owns the listener and the models behind
//! [`Catalog`]. What must stay true: both modes of an answer are made from one stream of parts (`answer`), so they
//! cannot differ, and status codes are decided in one file (`error`).
#![doc = include_str!("../README.md")]

mod account;
mod answer;
mod anthropic;
mod auth;
mod body;
mod catalog;
mod config;
mod dialect;
mod entropy;
mod error;
mod health;
mod limits;
mod memory;
mod metrics;
mod near;
mod offer;
mod openai;
mod prefixes;
mod prepare;
mod router;
mod sampling;
mod sse;
mod talk;
mod trace;
mod words;

pub use catalog::{Bounds, Card, Catalog, GuardError, OpenError, Served};
pub use config::Config;
pub use memory::Memory;
pub use prefixes::{Prefixes, Shelf};
pub use router::router;
pub use sampling::{OutOfRange, Owner, Parameter, Settings, Unsettable, built_in};
