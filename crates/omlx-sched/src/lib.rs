//! What runs next: a deterministic continuous-batching scheduler.
#![doc = include_str!("../README.md")]
