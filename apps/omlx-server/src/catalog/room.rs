//! One model's place: closed, opening, or open with an engine in it.
//!
//! A load belongs to the room and not to the request that caused it: a client that goes away neither stops it nor makes
//! the next one start anew, and all who ask meanwhile wait for the same one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use omlx_api::EngineHandle;
use omlx_http::{Card, OpenError, Served, Settings};
use omlx_hub::Found;
use tokio::sync::watch;

use super::load::{Failure, Loader};
use super::look;

/// One model.
pub(crate) struct Room {
    id: String,
    path: PathBuf,
    created: u64,
    state: Mutex<State>,
}

struct State {
    /// Why it could not be served the last time anybody tried.
    failure: Option<Failure>,
    /// Whether the log has that already: a client that asks again and again is no news.
    said: bool,
    /// What the owner set for this model.
    settings: Settings,
    door: Door,
}

type Outcome = Result<Served, Failure>;

enum Door {
    Closed,
    /// Holds `None` until the load has ended.
    Opening(watch::Receiver<Option<Outcome>>),
    Open(Box<Served>),
}

impl Room {
    pub(crate) fn new(found: Found) -> Self {
        let failure = look::trouble(&found).map(Failure::Unusable);
        let state = Mutex::new(State { failure, said: false, settings: Settings::default(), door: Door::Closed });
        let modified = std::fs::metadata(&found.path).and_then(|m| m.modified()).ok();
        let created = modified.and_then(|t| t.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_secs());
        Self { id: found.id, path: found.path, created, state }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn card(&self) -> Card {
        let state = self.state();
        let context = if let Door::Open(served) = &state.door { Some(served.bounds.most()) } else { None };
        // Memory may be there the next time, so only damage is trouble.
        let trouble = state.failure.as_ref().and_then(Failure::damage).map(str::to_owned);
        Card { id: self.id.clone(), created: self.created, context, trouble }
    }

    /// Adds to what the owner set for this model; counts from the next load on.
    pub(crate) fn set(&self, settings: &Settings) {
        let mut state = self.state();
        state.settings = settings.or(&state.settings);
    }

    /// The engine, where one was started; it may have died since.
    pub(crate) fn engine(&self) -> Option<EngineHandle> {
        if let Door::Open(served) = &self.state().door { Some(served.engine.clone()) } else { None }
    }

    /// Whether it is loaded and can chat.
    pub(crate) fn chats(&self) -> bool {
        matches!(&self.state().door, Door::Open(served) if served.text.has_template())
    }

    /// The model, loaded.
    pub(crate) async fn open(self: &Arc<Self>, loader: &Arc<Loader>) -> Result<Served, OpenError> {
        let mut stopping = loader.stopping.subscribe();
        let mut opening = {
            let mut state = self.state();
            match &state.door {
                Door::Open(served) if served.engine.is_alive() => return Ok(served.as_ref().clone()),
                Door::Opening(outcome) => outcome.clone(),
                _ if *stopping.borrow() => return Err(OpenError::Stopping),
                Door::Open(_) | Door::Closed => {
                    let (sender, outcome) = watch::channel(None);
                    state.door = Door::Opening(outcome.clone());
                    let (room, loader) = (Arc::clone(self), Arc::clone(loader));
                    tokio::task::spawn_blocking(move || room.fill(&loader, &sender));
                    outcome
                }
            }
        };
        tokio::select! {
            biased;
            outcome = opening.wait_for(Option::is_some) => match outcome.ok().and_then(|outcome| outcome.clone()) {
                Some(outcome) => outcome.map_err(OpenError::from),
                // The server is ending, and the load with it.
                None => Err(OpenError::Stopping),
            },
            // A load may hang for ever; neither its clients nor the end of the server wait for that.
            _ = stopping.wait_for(|stopping| *stopping) => Err(OpenError::Stopping),
            () = tokio::time::sleep(loader.patience) => Err(OpenError::Slow { seconds: loader.patience.as_secs() }),
        }
    }

    /// Loads, on a thread that may block.
    fn fill(&self, loader: &Loader, outcome: &watch::Sender<Option<Outcome>>) {
        let own = self.state().settings;
        let loaded = catch_unwind(AssertUnwindSafe(|| loader.load(&self.id, &self.path, own)));
        let loaded = loaded.unwrap_or_else(|_| {
            let path = self.path.display();
            Err(Failure::Unusable(format!(
                "{path}: loading failed by a fault of the server; its log says more, please report it"
            )))
        });
        let mut state = self.state();
        match &loaded {
            Ok(served) => {
                state.failure = None;
                state.door = Door::Open(Box::new(served.clone()));
            }
            Err(failure) => {
                state.said &= state.failure.as_ref().is_some_and(|known| known.like(failure));
                state.failure = Some(failure.clone());
                state.door = Door::Closed;
            }
        }
        drop(state);
        if loader.started.load(Ordering::Relaxed) {
            self.report();
        }
        outcome.send_replace(Some(loaded));
    }

    /// Writes to the log why the model cannot be served, if that is so and was not said before.
    pub(crate) fn report(&self) {
        let failure = {
            let mut state = self.state();
            if std::mem::replace(&mut state.said, true) { None } else { state.failure.clone() }
        };
        match failure {
            None => {}
            Some(Failure::Unusable(reason)) => tracing::warn!("model {} is not offered: {reason}", self.id),
            Some(Failure::NoRoom(reason) | Failure::NeverFits(reason)) => {
                tracing::warn!("model {} was not loaded: {reason}", self.id)
            }
        }
    }

    /// Why it could not be served the last time anybody tried.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state().failure.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, so a poisoned one is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
