//! Slower places for blocks: the memory of the host, and disk.
//!
//! Everything here works on names and bytes; it knows no scheduler, no model and no device. A store may lose any block at any
//! time, and nobody minds: a block that is not there is computed again. What must stay true is the other direction. A block that
//! comes back has the name and the tokens that were asked for and exactly the bytes that were put; anything else counts as
//! missing. Loss is not equal, though: a chain is read from its front, so a chain loses its end before its front.
//!
//! # How an engine uses it
//!
//! On the boundary between two steps it has three things to say, none of which waits for a disk:
//!
//! 1. Blocks that were sealed are offered to the [`Writer`], as long as it has [room](Writer::room): what finds none stays in the
//!    pool and is offered again, or is counted as skipped.
//! 2. Blocks that the pool is about to give up go into a [`RamStore`] with [`put`](BlockStore::put).
//! 3. A new request's trail of names is looked up with [`leading`](BlockStore::leading) and [touched](BlockStore::touch), the blocks
//!    the pool still has included: their use keeps the stored front of the chain alive. If a fetch is worth it, the sequence
//!    is set aside, a [`Reader`] fetches, and whatever has come is adopted and [imported](crate::KvCache::import) between two
//!    steps; then the sequence is taken back, and an ordinary hit finds what is there.
//!
//! ```
//! use std::sync::Arc;
//! use candle_core::{DType, Device};
//! use omlx_kv::tier::{Block, BlockStore, Label, RamStore, Reader, Wanted, Writer};
//! use omlx_kv::{BlockId, BlockKey, Codec, GroupId, KvCache, KvGroup, KvLayout, Reach, Salt};
//! use omlx_blocks::GroupSize;
//!
//! let group = KvGroup { layers: vec![0, 1], heads: 1, dim: 8, reach: Reach::All, codec: Codec::Plain(DType::F32) };
//! let sizes = [GroupSize { reach: Reach::All, blocks: 4 }];
//! let kv = KvCache::new(KvLayout { groups: vec![group] }, &sizes, 2, &Device::Cpu)?; // four blocks of two tokens
//!
//! // With a scheduler, these names come from `Sched::trail`.
//! let salt = Salt::of(&[("weights", b"fingerprint"), ("kv", b"f32")]);
//! let (root, group) = (BlockKey::root(&salt), GroupId(0));
//! let first = root.child(&[1, 2]);
//! let second = first.child(&[3, 4]);
//! let label = |key, parent, tokens: [u32; 2]| Label { salt, group, key, parent, codec: Codec::Plain(DType::F32), tokens: tokens.into() };
//!
//! // Sealed blocks 0 and 1 are offered; the writer's thread puts them into the store. A `DiskStore` serves just as well.
//! let store: Arc<dyn BlockStore> = Arc::new(RamStore::new(1 << 20));
//! let writer = Writer::start(Arc::clone(&store), 1 << 20)?;
//! for (id, label) in [(0, label(first, root, [1, 2])), (1, label(second, first, [3, 4]))] {
//!     writer.offer(Block { label, bytes: kv.export(group, BlockId(id))?, behind: false });
//! }
//! assert!(writer.flush(std::time::Duration::from_secs(5)));
//!
//! // A request with the same beginning comes: its trail is looked up, fetched, and brought into blocks 2 and 3.
//! assert_eq!(store.leading(&[first, second]), 2);
//! store.touch(&[first, second]);
//! let wanted = |key, tokens: [u32; 2]| Wanted { key, tokens: tokens.into(), len: kv.block_len(group) };
//! let reader = Reader::start(Arc::clone(&store), 2)?;
//! let mut fetch = reader.fetch(vec![wanted(first, [1, 2]), wanted(second, [3, 4])], || { /* wake the engine */ });
//! let mut place = 2..;
//! while let Some(bytes) = fetch.next() {
//!     kv.import(group, BlockId(place.next().unwrap()), &bytes)?; // with a scheduler: where `Sched::adopt` says
//! }
//! assert_eq!(kv.export(group, BlockId(3))?, kv.export(group, BlockId(1))?);
//! # Ok::<(), omlx_kv::Error>(())
//! ```

mod block;
mod disk;
#[cfg(any(test, feature = "testing"))]
pub mod faults;
mod layered;
mod ram;
mod reader;
mod store;
mod tiers;
mod writer;

pub use block::{Block, Label, Wanted};
pub use disk::{Census, DiskConfig, DiskStore, Found, Medium, MediumFile, Opened, Verified};
pub use ram::RamStore;
pub use reader::{Fetch, Next, Reader};
pub use store::{BlockStore, End, Got, StoreStats};
pub use tiers::{Lies, Tiers, TiersConfig, TiersStats};
pub use writer::{Writer, WriterStats};
