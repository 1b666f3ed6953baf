//! The KV tensors that block ids point into.
#![doc = include_str!("../README.md")]
//!
//! Who holds which block is decided in omlx-blocks; this crate holds the tensors that the block ids point into. candle tensors
//! can be written behind `&`, so the compiler does not help: only [`LayerKv::write`], [`KvCache::import`] and
//! [`KvCache::give_back`] change pools. What leaves the pools and may come back is in [`tier`].

mod back;
mod batch;
mod buffers;
mod bytes;
mod cache;
mod codec;
mod error;
mod layout;
mod rows;
mod solo;
pub mod tier;
pub mod turboquant;

pub use batch::{Batch, BatchRow};
pub use bytes::BlockBytes;
pub use cache::{KvCache, LayerKv};
pub use codec::Codec;
pub use error::{Error, Result};
pub use layout::{KvGroup, KvLayout};
pub use omlx_blocks::{BlockId, BlockKey, GroupId, Salt, SeqId};
pub use omlx_ops::{Attend, Reach, RowView};
pub use rows::{Feed, Rows};
pub use solo::Solo;
pub use turboquant::{KvBits, KvStore, Turbo, Width};
