//! The whole server: the real binary, models from the fixtures, sockets on loopback.
//!
//! Tests are named after the field case they pin down, where there is one.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a failed step ends the test, and says why")]

mod answers;
mod broken;
mod client;
mod conversation;
mod ends;
mod exact;
mod faults;
mod gguf;
mod hub;
mod kills;
mod life;
mod log;
mod memory;
mod prefixes;
mod pressure;
mod process;
mod sampling;
mod secrets;
mod server;
mod text;
mod typed;
mod usage;
