//! Kernel text for Metal and CUDA.
#![doc = include_str!("../README.md")]
