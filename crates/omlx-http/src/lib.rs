//! The OpenAI API over HTTP, for any engine that speaks omlx-api.
#![doc = include_str!("../README.md")]
