//! Reads GGUF containers: metadata and the tensor directory, with limits.
#![doc = include_str!("../README.md")]
