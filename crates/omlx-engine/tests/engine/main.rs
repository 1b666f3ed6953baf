//! The engine from outside: real scheduler, ledger, cache and stage; echo and tiny models behind them.

mod answer;
mod crowd;
mod echo;
mod life;
mod mix;
mod planted;
