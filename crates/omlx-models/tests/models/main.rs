//! Whole models: tiny ones against golden vectors, real ones, GGUF files, and files that must not load.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod bad_gguf;
mod bad_input;
mod gguf;
mod golden;
mod mlx;
mod moe;
mod mxfp4;
mod real;
mod rows;
mod run;
mod write;
