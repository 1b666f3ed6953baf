//! What runs next: a deterministic continuous-batching scheduler.
//!
//! It plans and settles; it never runs anything. No clock, no randomness, no map order that matters, no I/O, and planning
//! cannot fail. There are no phases: a sequence has tokens and a count of computed ones, and a step gives each
//! sequence some of the difference.
#![doc = include_str!("../README.md")]

mod admit;
mod config;
mod outcome;
mod plan;
mod sched;
mod seq;
mod settle;

pub use config::Config;
pub use outcome::{Finish, Outcome, Refused};
pub use plan::{Plan, Row};
pub use sched::Sched;
pub use seq::Arrival;
pub use settle::Sampled;
