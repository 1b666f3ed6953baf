//! One model's place: closed, opening, or open with an engine in it.
//!
//! A load belongs to the room and not to the request that caused it: a client that goes away neither stops it nor makes
//! the next one start anew, and all who ask meanwhile wait for the same one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use omlx_api::EngineHandle;
use omlx_http::{Card, OpenError, Served};
use omlx_hub::Found;
use tokio::sync::watch;

use super::load::{Failure, Loader};

/// One model.
pub(crate) struct Room {
    id: String,
    path: PathBuf,
    created: u64,
    state: Mutex<State>,
}

struct State {
    /// Why it cannot be served, as far as known.
    trouble: Option<String>,
    door: Door,
}

type Outcome = Result<Served, Failure>;

enum Door {
    Closed,
    /// Holds `None` until the load has ended.
    Opening(watch::Receiver<Option<Outcome>>),
    Open(Served),
}

impl Room {
    pub(crate) fn new(found: Found) -> Self {
        let trouble = found.state.err().map(|fault| {
            // Some faults name the file within the folder, some the whole path, most neither.
            let (path, fault) = (found.path.display().to_string(), fault.to_string());
            if fault.starts_with(&path) { fault } else { format!("{path}: {fault}") }
        });
        let state = Mutex::new(State { trouble, door: Door::Closed });
        let modified = std::fs::metadata(&found.path).and_then(|m| m.modified()).ok();
        let created = modified.and_then(|t| t.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_secs());
        Self { id: found.id, path: found.path, created, state }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn card(&self) -> Card {
        let state = self.state();
        let context = if let Door::Open(served) = &state.door { Some(served.context) } else { None };
        Card { id: self.id.clone(), created: self.created, context, trouble: state.trouble.clone() }
    }

    /// The engine, where one was started; it may have died since.
    pub(crate) fn engine(&self) -> Option<EngineHandle> {
        if let Door::Open(served) = &self.state().door { Some(served.engine.clone()) } else { None }
    }

    /// The model, loaded.
    pub(crate) async fn open(self: &Arc<Self>, loader: &Arc<Loader>) -> Result<Served, OpenError> {
        let mut opening = {
            let mut state = self.state();
            match &state.door {
                Door::Open(served) if served.engine.is_alive() => return Ok(served.clone()),
                Door::Opening(outcome) => outcome.clone(),
                Door::Open(_) | Door::Closed => {
                    let (sender, outcome) = watch::channel(None);
                    state.door = Door::Opening(outcome.clone());
                    let (room, loader) = (Arc::clone(self), Arc::clone(loader));
                    tokio::task::spawn_blocking(move || room.fill(&loader, &sender));
                    outcome
                }
            }
        };
        let outcome = opening.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        // No outcome: the server is ending, and the load with it.
        outcome.unwrap_or(Err(Failure::Unusable("the server is stopping".into()))).map_err(OpenError::from)
    }

    /// Loads, on a thread that may block.
    fn fill(&self, loader: &Loader, outcome: &watch::Sender<Option<Outcome>>) {
        let loaded = catch_unwind(AssertUnwindSafe(|| loader.load(&self.id, &self.path)));
        let loaded = loaded.unwrap_or_else(|_| {
            let path = self.path.display();
            Err(Failure::Unusable(format!(
                "{path}: loading failed by a fault of the server; its log says more, please report it"
            )))
        });
        let mut state = self.state();
        match &loaded {
            Ok(served) => {
                state.trouble = None;
                state.door = Door::Open(served.clone());
            }
            Err(failure) => {
                tracing::warn!("model {} cannot be served: {failure}", self.id);
                // Memory may be there the next time, so only damage is trouble.
                state.trouble = if let Failure::Unusable(reason) = failure { Some(reason.clone()) } else { None };
                state.door = Door::Closed;
            }
        }
        drop(state);
        outcome.send_replace(Some(loaded));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, so a poisoned one is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
