//! One thread per model: plan, stage, run, sample, book.
#![doc = include_str!("../README.md")]
