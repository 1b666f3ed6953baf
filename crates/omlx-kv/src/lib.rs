//! A paged KV cache for candle: layout, ragged batch, sliding windows.
#![doc = include_str!("../README.md")]
