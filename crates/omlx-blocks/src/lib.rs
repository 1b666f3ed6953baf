//! Who holds which KV cache block: ids, tables, prefix keys.
#![doc = include_str!("../README.md")]
