//! Who holds which KV cache block: ids, tables, prefix keys.
//!
//! Integers only. Nothing here knows a tensor; the ids say which row of which pool a token's key and value live in.
//! What must stay true is written as code in [`Ledger::check`].
#![doc = include_str!("../README.md")]

mod check;
mod hit;
mod id;
mod key;
mod lack;
mod ledger;
mod news;
mod pool;
mod reach;
mod revise;
mod table;
mod tail;

pub use hit::Trail;
pub use id::{BlockId, GroupId, SeqId, Slot};
pub use key::{BlockKey, Salt};
pub use lack::Lack;
pub use ledger::{Full, GroupSize, Ledger};
pub use news::{Evicted, Named, News};
pub use reach::Reach;
pub use revise::Uncut;
pub use table::BlockTable;
