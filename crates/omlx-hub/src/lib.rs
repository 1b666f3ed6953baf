//! A model's name to a complete folder on disk.
#![doc = include_str!("../README.md")]
