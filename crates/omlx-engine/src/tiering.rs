//! Slower places for this engine's blocks: what goes out on the way between two steps. What comes back is in `fetching.rs`.
//!
//! Nothing here waits for a disk. A block that is worth keeping is written behind when there is room in the writer's queue; until then
//! only its name is remembered. A block whose place another takes goes into the memory of the host before that place is
//! written, so `spill` stands between every plan, or adoption, and the first write after it.

use std::sync::Arc;
use std::time::Duration;

use omlx_api::Bell;
use omlx_blocks::{BlockId, BlockKey, GroupId, Reach, Salt};
use omlx_kv::tier::{Block, Label, Tiers};
use omlx_kv::{BlockBytes, KvCache};
use omlx_sched::Sched;

use self::backlog::Backlog;
use self::fetching::Fetching;
use self::rate::Rate;
use crate::engine::Engine;

mod backlog;
mod fetching;
mod probe;
mod rate;

/// Bytes that are copied out for the writer between two steps: some milliseconds.
const WRITE_BYTES: u64 = 16 << 20;
/// How long the end of an engine waits for room to write what is not written yet.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// An engine's side of the slower places.
pub(crate) struct Tiering {
    tiers: Arc<Tiers>,
    salt: Salt,
    /// Wakes this engine when something has been fetched.
    bell: Bell,
    /// Names of what is to be written.
    backlog: Backlog,
    fetching: Vec<Fetching>,
    /// How fast prompts are computed.
    rate: Rate,
}

impl Tiering {
    pub(crate) fn new(tiers: Arc<Tiers>, salt: Salt, bell: Bell) -> Self {
        Self { tiers, salt, bell, backlog: Backlog::default(), fetching: Vec::new(), rate: Rate::default() }
    }

    /// A step with so many tokens of prompts has taken so long.
    pub(crate) fn took(&mut self, tokens: usize, time: Duration) {
        self.rate.took(tokens, time);
    }

    /// Whether so many tokens are sooner brought back, in the estimated time, than computed.
    fn pays(&self, estimate: Duration, tokens: usize) -> bool {
        self.tiers.is_eager() || self.rate.time(tokens).is_none_or(|computed| estimate <= computed)
    }

    /// Gives up memory of the host, once a reading of the guard, and answers how many bytes.
    pub(crate) fn relieve(&self, number: u64, all: bool) -> u64 {
        self.tiers.relieve(number, all)
    }

    /// Tells the slower places of blocks that lost their place, before it is written.
    fn spill(&mut self, sched: &mut Sched, kv: &KvCache) {
        let mut stash = Vec::new();
        for gone in sched.evicted() {
            // Of a group that sees everything all was written, unless the disk took nothing then; who follows it there is of no use
            // without it.
            let sees_all = kv.layout().groups[gone.group.index()].reach == Reach::All;
            let owed = self.backlog.remove(&gone.key) || sees_all;
            let owed = owed && self.tiers.has_disk() && !self.tiers.on_disk(&gone.key);
            let wanted = self.tiers.has_ram() && !self.tiers.in_ram(&gone.key);
            let write = owed && self.tiers.room() >= kv.block_len(gone.group) as u64;
            self.tiers.unwritten(u64::from(owed && !write));
            if !wanted && !write {
                self.tiers.touch(&[gone.key]);
                continue;
            }
            let label = self.label(kv, gone.group, (gone.key, gone.parent), gone.tokens.into());
            let Some(block) = export(kv, gone.block, label, gone.behind) else { continue };
            if write {
                self.tiers.write(block.clone());
            }
            if wanted {
                stash.push(block);
            }
        }
        // The ledger gives up a chain's end before its front; a store takes fronts first.
        stash.reverse();
        self.tiers.stash(&stash);
    }

    /// Remembers what is worth keeping and hands the writer as much of it as there is room for now.
    fn keep(&mut self, sched: &mut Sched, kv: &KvCache) {
        let news = sched.news();
        if !news.disowned.is_empty() {
            news.disowned.iter().for_each(|key| {
                self.backlog.remove(key);
            });
            self.tiers.forget(&news.disowned);
        }
        if self.tiers.has_disk() {
            let lost = news.kept.into_iter().filter(|&(group, key)| !self.backlog.push(group, key)).count();
            self.tiers.unwritten(lost as u64);
            self.write(sched, kv, WRITE_BYTES);
        }
    }

    /// Hands the writer at most so many bytes of the backlog, and answers whether there was room for as much as that.
    fn write(&mut self, sched: &Sched, kv: &KvCache, most: u64) -> bool {
        let mut bytes = 0;
        while bytes < most
            && let Some((group, key)) = self.backlog.front()
        {
            let len = kv.block_len(group) as u64;
            if self.tiers.room() < len {
                return false;
            }
            self.backlog.pop();
            if self.tiers.on_disk(&key) {
                self.tiers.touch(&[key]);
                continue;
            }
            // One that is gone was told of when it went.
            let Some(named) = sched.named(group, &key) else { continue };
            let label = self.label(kv, group, (key, named.parent), named.tokens.into());
            if let Some(block) = export(kv, named.block, label, false) {
                self.tiers.write(block);
                bytes += len;
            }
        }
        true
    }

    fn label(&self, kv: &KvCache, group: GroupId, (key, parent): (BlockKey, BlockKey), tokens: Arc<[u32]>) -> Label {
        let codec = kv.layout().groups[group.index()].codec;
        Label { salt: self.salt, group, key, parent, codec, tokens }
    }

    /// The last words: what was to be written is written, and everything that can be found goes into the memory of the host.
    fn retire(&mut self, sched: &mut Sched, kv: &KvCache) {
        self.fetching.clear();
        let end = std::time::Instant::now() + LAST_WRITES;
        while !self.write(sched, kv, u64::MAX) && self.tiers.wait_for_room(end) {}
        self.tiers.unwritten(self.backlog.len() as u64);
        self.backlog = Backlog::default();
        sched.retire();
        self.spill(sched, kv);
    }
}

/// A block's content, or nothing where the device fails: then it is computed again one day.
fn export(kv: &KvCache, id: BlockId, label: Label, behind: bool) -> Option<Block> {
    let bytes: Result<BlockBytes, _> = kv.export(label.group, id);
    match bytes {
        Ok(bytes) => Some(Block { label, bytes, behind }),
        Err(error) => {
            tracing::warn!(%error, "a block cannot be copied out of the cache and is not kept");
            None
        }
    }
}

impl Engine {
    /// Between a plan, or an adoption, and the first write after it.
    pub(crate) fn spill(&mut self) {
        if let Some(tiering) = &mut self.tiering {
            tiering.spill(&mut self.sched, &self.kv);
        }
    }

    /// After a step was settled, or has failed.
    pub(crate) fn keep(&mut self) {
        if let Some(tiering) = &mut self.tiering {
            tiering.keep(&mut self.sched, &self.kv);
        }
    }

    /// Before the cache is freed.
    pub(crate) fn retire(&mut self) {
        if let Some(mut tiering) = self.tiering.take() {
            self.live.keys().for_each(|&seq| self.sched.cancel(seq));
            tiering.retire(&mut self.sched, &self.kv);
        }
    }
}
