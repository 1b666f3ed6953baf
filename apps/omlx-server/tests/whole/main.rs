//! The whole server: the real binary, models from the fixtures, sockets on loopback.
//!
//! Tests are named after the field case they pin down, where there is one.
#![allow(missing_docs, unreachable_pub, clippy::allow_attributes, reason = "a test binary has no public face")]

mod answers;
mod broken;
mod client;
mod ends;
mod life;
mod process;
mod sampling;
mod server;
mod text;
mod usage;
