//! The words spoken to an omlx engine: request, event, handle.
//!
//! Whoever wants text talks to an engine through [`EngineHandle`]; whoever computes sits behind [`Mailbox`]. Neither side
//! needs to know the other's crate, so a server can be tested with a ten-line engine and an engine without a server.
//! What must stay true: every [`Ticket`] ends in exactly one [`Event::Done`] or [`Event::Failed`], whatever dies.
#![doc = include_str!("../README.md")]

mod channel;
mod event;
mod probe;
mod reply;
mod request;

pub use channel::{Bell, Command, EngineHandle, Mailbox, Snapshot, channel};
pub use event::{Busy, Event, Fault, Finish, Logprobs, Refusal, Usage};
pub use probe::{Asked, Heat, Known};
pub use reply::{Reply, Ticket};
pub use request::{Generate, Priority, Sampling, TokenMask};
