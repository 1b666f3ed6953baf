//! Text to token ids and back: tokenizer, chat template, stop strings.
#![doc = include_str!("../README.md")]
