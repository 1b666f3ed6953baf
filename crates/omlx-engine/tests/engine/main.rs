//! The engine from outside: real scheduler, ledger, cache and stage; echo and tiny models behind them.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod answer;
mod crowd;
mod damage;
mod echo;
mod fail;
mod invariance;
mod life;
mod memory;
mod mix;
mod pace;
mod planted;
mod real;
mod tiers;
mod windows;
