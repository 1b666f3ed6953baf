//! Memory for models that are being loaded: promised before their files are read, and corrected after.
//!
//! Only promising happens under the lock, and no file is touched there: a load that hangs keeps its promise and holds up
//! nobody. Two loads side by side never get the same bytes, with or without a memory guard.
//!
//! A model that is loaded stays, so who asks for one that does not fit beside it is told whether waiting can help: other programs may
//! end and loads may fail, and nothing else gives memory back.
//!
//! What is kept of prompts is promised its whole budget, so that it cannot take what an engine was promised; but it gives way to a model:
//! its budget shrinks by what is missing.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use omlx_engine::guard::{Guard, Limits, Promise, System, free_bytes, installed_bytes};
use omlx_kv::tier::Tiers;

use super::load::Failure;
use crate::config::readable;

/// What is promised to all models of this server.
pub(super) struct Promises {
    guard: Arc<Guard>,
    /// Whether the user wants the guard. Without, it only counts what loads under way will take.
    guarded: bool,
    turn: Mutex<()>,
    /// Held once more by each load under way.
    loads: Arc<()>,
    kept: Option<Kept>,
}

/// What is kept of prompts in memory.
struct Kept {
    tiers: Arc<Tiers>,
    /// What the user wants to be kept.
    wish_bytes: u64,
    promise: Mutex<Promise>,
}

/// What a load under way was promised before its files were read.
pub(super) struct Expected {
    _promise: Promise,
    _load: Arc<()>,
}

/// A loaded model's share while it is worked out: nobody else is promised anything meanwhile.
pub(super) struct Settling<'a> {
    promises: &'a Promises,
    promise: Promise,
    /// What is left beside the weights.
    pub(super) room_bytes: u64,
    /// The most that could ever be, as long as the loaded models stay; `None` while that is not known.
    pub(super) best_bytes: Option<u64>,
    guarded: bool,
    _turn: MutexGuard<'a, ()>,
}

impl Promises {
    pub(super) fn new(guard: Option<Arc<Guard>>, tiers: Option<Arc<Tiers>>) -> Self {
        let guarded = guard.is_some();
        let free = || Guard::new(Limits { most_bytes: u64::MAX, spare_bytes: 0, tier: None }, Box::new(System));
        let guard = guard.unwrap_or_else(free);
        let kept = tiers.and_then(|tiers| {
            let budget_bytes = tiers.stats().ram?.budget_bytes;
            Some(Kept { promise: Mutex::new(guard.promise(budget_bytes)), wish_bytes: budget_bytes, tiers })
        });
        Self { guard, guarded, turn: Mutex::new(()), loads: Arc::new(()), kept }
    }

    /// Promises the bytes of a model's files, or refuses a model for which there is no room.
    pub(super) fn expect(&self, path: &Path) -> Result<Expected, Failure> {
        // Outside the lock: asking a file system may take for ever.
        let need = weight_bytes(path);
        let _turn = self.turn();
        let mut free = free_bytes().unwrap_or(u64::MAX);
        let mut room = self.guard.room();
        if need > free.min(room) && self.give_way(need.saturating_sub(room), need.saturating_sub(free)) {
            (free, room) = (free_bytes().unwrap_or(u64::MAX), self.guard.room());
        }
        if need <= free.min(room) {
            return Ok(Expected { _promise: self.guard.promise(need), _load: Arc::clone(&self.loads) });
        }
        // Whatever becomes of the loads under way.
        let alone = self.guarded.then(|| self.guard.room_alone());
        let best = self.best().or(alone).filter(|best| need > *best);
        let (path, need) = (path.display(), readable(need));
        if let Some(best) = best {
            let left = readable(best.min(room));
            let kept = self.kept.as_ref().map_or(0, Kept::budget_bytes);
            let (beside, ask) = match self.guard.status(Instant::now()).promised_bytes - kept {
                0 => ("", ""),
                _ => (
                    " beside the models that are loaded, which stay",
                    "ask for one of those, give each less with --kv-memory, ",
                ),
            };
            return Err(Failure::NeverFits(format!(
                "{path}: its weights take {need}, and the memory guard leaves {left}{beside}; {ask}raise --memory-guard, or \
                 use a smaller or more strongly quantised model"
            )));
        }
        Err(Failure::NoRoom(if free <= room {
            format!(
                "{path}: its weights take {need}, and {} are free; end other programs, or use a smaller or more strongly \
                 quantised model",
                readable(free)
            )
        } else if self.guarded {
            format!(
                "{path}: its weights take {need}, and the memory guard leaves {} now; raise --memory-guard, give each \
                 model less with --kv-memory, end other programs, or use a smaller or more strongly quantised model",
                readable(room)
            )
        } else {
            format!(
                "{path}: its weights take {need}, and the models that are being loaded leave {}; ask again when they are, \
                 or use a smaller or more strongly quantised model",
                readable(room)
            )
        }))
    }

    /// Puts what the weights really take in place of what was expected.
    pub(super) fn settle(&self, expected: Expected, weight_bytes: u64) -> Settling<'_> {
        let turn = self.turn();
        drop(expected);
        let promise = self.guard.promise(weight_bytes);
        let (room_bytes, best_bytes) = (self.guard.room(), self.best());
        Settling { promises: self, promise, room_bytes, best_bytes, guarded: self.guarded, _turn: turn }
    }

    /// Takes memory from what is kept of prompts: `room` bytes of what may be promised, `free` bytes of what is free. Nothing, and
    /// `false`, where not as much is kept; whether it was enough is seen by looking again, since other programs take memory too.
    fn give_way(&self, room: u64, free: u64) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.give_way(room, free))
    }

    /// A load has failed: what was kept of prompts may be kept again.
    pub(super) fn failed(&self) {
        let _turn = self.turn();
        if let Some(kept) = &self.kept {
            kept.regrow(self.guard.room());
        }
    }

    /// The most that could be promised if other programs ended, since models that are loaded stay; nothing is known while one is being
    /// loaded, which may fail and give its share back, or where nobody keeps account of the loaded ones.
    fn best(&self) -> Option<u64> {
        let known = self.guarded && Arc::strong_count(&self.loads) == 1;
        let kept = self.kept.as_ref().map_or(0, Kept::budget_bytes);
        known.then(|| self.guard.room_at_best().saturating_add(kept).min(installed_bytes().unwrap_or(u64::MAX)))
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        // It guards no data of its own.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn promise(&self) -> MutexGuard<'_, Promise> {
        self.promise.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budget_bytes(&self) -> u64 {
        self.promise().bytes()
    }

    fn give_way(&self, room: u64, free: u64) -> bool {
        let mut promise = self.promise();
        let held = self.tiers.stats().ram.map_or(0, |ram| ram.bytes);
        // Only what is held can become free.
        let unfilled = promise.bytes().saturating_sub(held);
        let bytes = if free > 0 { room.max(unfilled.saturating_add(free)) } else { room };
        if bytes == 0 || bytes > promise.bytes() {
            return false;
        }
        promise.give_back(bytes);
        self.tiers.set_ram_budget(promise.bytes());
        let (given, left) = (readable(bytes), readable(promise.bytes()));
        tracing::info!("the prefix cache in memory gives {given} to a model and keeps {left}");
        true
    }

    /// Takes back what was given to a model, as far as `room` bytes allow.
    fn regrow(&self, room: u64) {
        let mut promise = self.promise();
        let missing = self.wish_bytes.saturating_sub(promise.bytes());
        promise.add(missing.min(room));
        self.tiers.set_ram_budget(promise.bytes());
    }
}

impl Settling<'_> {
    /// Finds so many bytes more, where what is kept of prompts has them, and answers whether it did.
    pub(super) fn widen(&mut self, bytes: u64) -> bool {
        let widened = self.promises.give_way(bytes, 0);
        self.room_bytes = self.promises.guard.room();
        widened
    }

    /// Whether raising the guard would leave more.
    pub(super) fn guarded(&self) -> bool {
        self.guarded
    }

    /// What the engine keeps for as long as it lives, if anybody watches: weights, and `bytes` for cache and steps.
    pub(super) fn keep(&mut self, bytes: u64) -> Option<Promise> {
        self.promise.add(bytes);
        self.guarded.then(|| {
            let guard = Arc::clone(self.promise.guard());
            std::mem::replace(&mut self.promise, guard.promise(0))
        })
    }
}

/// Bytes of the weight files; unreadable ones are the loader's to report.
fn weight_bytes(path: &Path) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    if path.is_file() {
        return size(path);
    }
    let Ok(entries) = std::fs::read_dir(path) else {
        return 0;
    };
    let files = entries.flatten().map(|e| e.path());
    files.filter(|p| p.extension().is_some_and(|e| e == "safetensors")).map(|p| size(&p)).sum()
}
