//! One thread per model: plan, stage, run, sample, book.
//!
//! The thread owns the model, its cache and its scheduler as plain fields. Everybody else holds an
//! [`EngineHandle`](omlx_api::EngineHandle) and sends messages, which are read between two steps and never within one.
#![doc = include_str!("../README.md")]

mod clock;
mod config;
mod engine;
mod error;
pub mod guard;
mod live;
mod mailbox;
mod press;
mod sampler;
mod spawn;
mod stage;
mod stats;
mod tiering;
mod turnstile;

pub use config::{Config, Fit};
pub use error::Error;
pub use spawn::{Place, spawn};
pub use turnstile::{Turn, Turnstile};
