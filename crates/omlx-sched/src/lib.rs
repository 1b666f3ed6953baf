//! What runs next: a deterministic continuous-batching scheduler.
//!
//! It plans and settles; it never runs anything. No clock, no randomness, no map order that matters, no I/O, and planning
//! cannot fail. There are no phases: a sequence has tokens and a count of computed ones, and a step gives each
//! sequence some of the difference.
#![doc = include_str!("../README.md")]

mod admit;
mod config;
mod cost;
mod door;
mod outcome;
mod pace;
mod plan;
mod press;
mod rank;
mod sched;
mod seq;
mod settle;
mod share;
mod slow;

pub use config::Config;
pub use outcome::{Finish, Outcome, Refused};
pub use pace::Target;
pub use plan::{Plan, Row};
pub use press::Pressure;
pub use rank::Priority;
pub use sched::Sched;
pub use seq::{Arrival, Branch};
pub use settle::Sampled;
