//! The wire: the real router over a scripted engine, no sockets except where a socket is the question.
//!
//! Each file is one subject; `rig.rs` is the engine that says a script and the catalog around it.

mod anthropic;
mod auth;
mod cancel;
mod context;
mod errors;
mod limits;
mod log;
mod logprobs;
mod metrics;
mod models;
mod params;
mod rig;
mod stream;
mod text;
mod thinking;
mod tools;
mod usage;
