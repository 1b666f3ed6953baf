//! Memory for models that are being loaded: promised before their files are read, and corrected after.
//!
//! Only promising happens under the lock, and no file is touched there: a load that hangs keeps its promise and holds up
//! nobody. Two loads side by side never get the same bytes, with or without a memory guard.
//!
//! A model that is loaded stays, so who asks for one that does not fit beside it is told whether waiting can help: other programs may
//! end and loads may fail, and nothing else gives memory back.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use omlx_engine::guard::{Guard, Limits, Promise, System, free_bytes, installed_bytes};

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
}

/// What a load under way was promised before its files were read.
pub(super) struct Expected {
    _promise: Promise,
    _load: Arc<()>,
}

/// A loaded model's share while it is worked out: nobody else is promised anything meanwhile.
pub(super) struct Settling<'a> {
    promise: Promise,
    /// What is left beside the weights.
    pub(super) room_bytes: u64,
    /// The most that could ever be, as long as the loaded models stay; `None` while that is not known.
    pub(super) best_bytes: Option<u64>,
    guarded: bool,
    _turn: MutexGuard<'a, ()>,
}

impl Promises {
    pub(super) fn new(guard: Option<Arc<Guard>>) -> Self {
        let guarded = guard.is_some();
        let free = || Guard::new(Limits { most_bytes: u64::MAX, spare_bytes: 0, tier: None }, Box::new(System));
        Self { guard: guard.unwrap_or_else(free), guarded, turn: Mutex::new(()), loads: Arc::new(()) }
    }

    /// Promises the bytes of a model's files, or refuses a model for which there is no room.
    pub(super) fn expect(&self, path: &Path) -> Result<Expected, Failure> {
        // Outside the lock: asking a file system may take for ever.
        let need = weight_bytes(path);
        let _turn = self.turn();
        let (free, room) = (free_bytes().unwrap_or(u64::MAX), self.guard.room());
        if need <= free.min(room) {
            return Ok(Expected { _promise: self.guard.promise(need), _load: Arc::clone(&self.loads) });
        }
        let best = self.best().filter(|best| need > *best);
        let (path, need) = (path.display(), readable(need));
        if let Some(best) = best {
            let left = readable(best.min(room));
            let (beside, ask) = match self.guard.status(Instant::now()).promised_bytes {
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
        Settling { promise, room_bytes, best_bytes, guarded: self.guarded, _turn: turn }
    }

    /// The most that could be promised if other programs ended, since models that are loaded stay; nothing is known while one is being
    /// loaded, which may fail and give its share back, or where nobody keeps account of the loaded ones.
    fn best(&self) -> Option<u64> {
        let known = self.guarded && Arc::strong_count(&self.loads) == 1;
        known.then(|| self.guard.room_at_best().min(installed_bytes().unwrap_or(u64::MAX)))
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        // It guards no data of its own.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Settling<'_> {
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
