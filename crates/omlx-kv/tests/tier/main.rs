//! The stores of blocks outside the pools: against a naive map, across restarts and kills, within budgets, and under faults.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod budget;
mod crash;
mod damage;
mod faults;
mod gate;
mod lock;
mod places;
mod property;
mod ram;
mod sample;
mod threads;
mod withdraw;
