//! The models by name: known from the start, loaded when first asked for, each once however many ask at the same time.
//!
//! A model that cannot be loaded keeps the reason and is left out of the list; the others do not notice. It is tried
//! again when asked for again, since its files may have been mended.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use candle_core::Device;
use futures_core::future::BoxFuture;
use omlx_api::EngineHandle;
use omlx_engine::guard::Guard;
use omlx_http::{Card, GuardError, Memory, OpenError, Prefixes, Served};
use omlx_hub::Found;
use omlx_kv::tier::Tiers;

use crate::caching;
use crate::config::Settings;
use crate::shown::acts;

mod drawing;
mod load;
mod look;
mod memory;
mod promises;
mod room;

use load::Loader;
use room::Room;

/// All models of this server.
#[derive(Clone)]
pub(crate) struct Catalog {
    rooms: Vec<Arc<Room>>,
    loader: Arc<Loader>,
    guard: Option<Arc<Guard>>,
    tiers: Option<Arc<Tiers>>,
}

impl Catalog {
    /// The models that were found, none loaded. Of two with the same path or the same name the first counts.
    pub(crate) fn new(
        found: Vec<Found>,
        settings: Settings,
        device: Device,
        guard: Option<Arc<Guard>>,
        tiers: Option<Arc<Tiers>>,
    ) -> Self {
        let (mut paths, mut ids) = (HashSet::<PathBuf>::new(), HashSet::<String>::new());
        let mut rooms = Vec::new();
        for model in found {
            let real = model.path.canonicalize().unwrap_or_else(|_| model.path.clone());
            if !paths.insert(real) {
                continue;
            }
            if model.id.contains(acts) {
                // It would end lines of the log and of what is printed, or make one name look like another.
                tracing::warn!(
                    "{:?}: a name with a line break, another control character or one that turns the reading direction; rename it",
                    model.path
                );
                continue;
            }
            if !ids.insert(model.id.clone()) {
                tracing::warn!("{}: a model named {} is already served from elsewhere", model.path.display(), model.id);
                continue;
            }
            rooms.push(Arc::new(Room::new(model)));
        }
        let loader = Arc::new(Loader::new(settings, device, guard.clone(), tiers.clone()));
        Self { rooms, loader, guard, tiers }
    }

    /// Sets values for the model of this name, or the only one whose last part it is.
    pub(crate) fn set(&self, name: &str, settings: &omlx_http::Settings) -> Result<(), OpenError> {
        self.find(name).map(|room| room.set(settings))
    }

    /// Whether the model of this name is loaded and can chat.
    pub(crate) fn chats(&self, name: &str) -> bool {
        self.find(name).is_ok_and(|room| room.chats())
    }

    /// How many models are loaded, or look as if they can be and were not tried yet.
    pub(crate) fn servable(&self) -> usize {
        self.rooms.iter().filter(|room| room.failure().is_none()).count()
    }

    /// Ends the start: what cannot be served is written to the log, now and whenever that changes.
    pub(crate) fn started(&self) {
        self.loader.started.store(true, Ordering::Relaxed);
        self.rooms.iter().for_each(|room| room.report());
    }

    /// Every model that failed so far, with the reason.
    pub(crate) fn failures(&self) -> Vec<(&str, String)> {
        self.rooms.iter().filter_map(|room| Some((room.id(), room.failure()?.to_string()))).collect()
    }

    /// Lets nobody wait for a load any more: what runs may go on, and what has not begun is not begun.
    pub(crate) fn close(&self) {
        self.loader.stopping.send_replace(true);
    }

    /// Tells all engines to stop: answers that still run end in an error.
    pub(crate) fn stop(&self) {
        for (_, engine) in omlx_http::Catalog::engines(self) {
            engine.stop();
        }
    }

    /// Ends all engines, and waits for a while until what is worth keeping of their prompts is kept.
    pub(crate) async fn put_away(&self) {
        if let Some(tiers) = &self.tiers {
            caching::close(Arc::clone(tiers), omlx_http::Catalog::engines(self)).await;
        }
    }

    /// The model of this full name, or the only one whose last part it is.
    fn find(&self, name: &str) -> Result<&Arc<Room>, OpenError> {
        if let Some(room) = self.rooms.iter().find(|room| room.id() == name) {
            return Ok(room);
        }
        let short: Vec<&Arc<Room>> =
            self.rooms.iter().filter(|room| room.id().rsplit('/').next() == Some(name)).collect();
        match short.as_slice() {
            [] => Err(OpenError::Unknown),
            [room] => Ok(room),
            several => Err(OpenError::Ambiguous { candidates: several.iter().map(|r| r.id().to_owned()).collect() }),
        }
    }
}

impl omlx_http::Catalog for Catalog {
    fn cards(&self) -> Vec<Card> {
        self.rooms.iter().map(|room| room.card()).collect()
    }

    fn card(&self, name: &str) -> Result<Card, OpenError> {
        self.find(name).map(|room| room.card())
    }

    fn open(&self, name: &str) -> BoxFuture<'_, Result<Served, OpenError>> {
        let room = self.find(name).map(Arc::clone);
        Box::pin(async move { room?.open(&self.loader).await })
    }

    fn engines(&self) -> Vec<(String, EngineHandle)> {
        let engine = |room: &Arc<Room>| Some((room.id().to_owned(), room.engine()?));
        self.rooms.iter().filter_map(engine).collect()
    }

    fn memory(&self) -> Option<Memory> {
        self.guard.as_deref().map(memory::seen)
    }

    fn set_memory(&self, words: &str) -> Result<Memory, GuardError> {
        memory::keep_to(self.guard.as_deref().ok_or(GuardError::Off)?, words)
    }

    fn prefixes(&self) -> Option<Prefixes> {
        self.tiers.as_deref().map(memory::kept)
    }
}

#[cfg(test)]
mod tests;
