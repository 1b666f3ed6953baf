//! The words spoken to an omlx engine: request, event, handle.
#![doc = include_str!("../README.md")]
