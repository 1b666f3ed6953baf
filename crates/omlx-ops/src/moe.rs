//! Routed feed-forward: each token goes through the few experts that a router chose for it.
//!
//! Which experts those are is decided on the host, by integers and f32 scores (`route`). Tokens are then sorted by expert, and
//! the rows of all experts go through their matrices in one call (`experts`): a weight is read once however many tokens want
//! it, and an expert that nobody wants is not read.

mod experts;
mod reference;
mod route;
#[cfg(test)]
mod tests;

pub use experts::{Expert, Experts};
pub use route::{Groups, Router, Routes, Score, route};
