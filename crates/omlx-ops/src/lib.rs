//! Tensor operations candle lacks, on CPU, CUDA and Metal.
#![doc = include_str!("../README.md")]
