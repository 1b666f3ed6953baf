//! One transformer, many tables: Llama, Qwen2, Gemma 3.
#![doc = include_str!("../README.md")]
