//! From a path to a running engine, with the rules of the configuration turned into numbers for this model.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use candle_core::{DType, Device};
use omlx_blocks::Salt;
use omlx_engine::guard::{Guard, free_bytes};
use omlx_engine::{Place, Turnstile};
use omlx_http::{OpenError, Served};
use omlx_models::{LoadOptions, Loaded, Model};
use omlx_text::TextModel;

use crate::cli::KvType;
use crate::config::{Context, Memory, Settings, readable};

/// Requests that may wait for a place among those that are answered; more are told to come again later.
const WAITING: usize = 256;

/// Loads models, one at a time, for one device.
pub(crate) struct Loader {
    settings: Settings,
    device: Device,
    turnstile: Arc<Turnstile>,
    guard: Option<Arc<Guard>>,
    /// Held during a load, so that what is free is not promised twice.
    one_at_a_time: Mutex<()>,
}

/// Why a model was not loaded.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Its files cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// There is no memory for it now.
    #[error("{0}")]
    NoRoom(String),
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unusable(reason) => Self::Unusable { reason },
            Failure::NoRoom(reason) => Self::NoRoom { reason },
        }
    }
}

impl Loader {
    pub(crate) fn new(settings: Settings, device: Device, guard: Option<Arc<Guard>>) -> Self {
        Self { settings, device, turnstile: Arc::new(Turnstile::new(1)), guard, one_at_a_time: Mutex::new(()) }
    }

    /// Loads a model and starts its engine.
    pub(crate) fn load(&self, id: &str, path: &Path) -> Result<Served, Failure> {
        let _turn = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        self.has_room(path)?;
        let (text, loaded) = self.read(path)?;
        let Loaded { model, card } = loaded;
        for warning in &card.warnings {
            tracing::warn!("model {id}: {warning}");
        }
        let mut memory = self.guard.as_ref().map(|guard| guard.promise(card.weight_bytes));
        let room = self.room_beside(&model);
        let config = self.engine_config(room);
        let limit =
            if config.kv_bytes == room { "; the memory guard leaves no more, raise --memory-guard" } else { "" };
        let fault = |error: omlx_engine::Error| {
            let said = format!("{}: {error}{limit}", path.display());
            let small = matches!(error, omlx_engine::Error::Cache(omlx_kv::Error::Budget { .. }));
            // A fixed size never grows, and a share or the guard's may.
            match self.settings.kv_memory {
                Memory::Bytes(bytes) if small && bytes <= room => {
                    Failure::Unusable(format!("{said}; raise --kv-memory, which is {}", readable(bytes)))
                }
                _ => Failure::NoRoom(said),
            }
        };
        let fit = config.fit(&model).map_err(fault)?;
        if let Some(memory) = &mut memory {
            memory.add(fit.kv_bytes + fit.step_bytes);
        }
        let context = fit.context;
        let wished = self.wished(card.context);
        if context < wished {
            tracing::warn!(
                "model {id}: its KV memory of {} holds {context} tokens, not {wished}; \
                 raise --kv-memory or --memory-guard, or take --kv-dtype f16",
                readable(config.kv_bytes)
            );
        }
        let salt = Salt::of(&[("weights", &card.fingerprint), ("kv", self.settings.kv_type.to_string().as_bytes())]);
        let place = Place { turnstile: Arc::clone(&self.turnstile), memory };
        let engine = omlx_engine::spawn(Box::new(model), salt, &self.device, config, place);
        let engine = engine.map_err(fault)?;
        tracing::info!(
            "loaded model {id} in {:.1} s: {}, {:.0} M parameters, {} in {}, context {context}",
            start.elapsed().as_secs_f32(),
            card.arch,
            card.parameters as f64 / 1e6,
            readable(card.weight_bytes),
            card.dtype,
        );
        Ok(Served { id: id.to_owned(), engine, text: Arc::new(text), context, settings: self.settings.sampling })
    }

    /// Text and weights, read at the same time: large vocabularies take as long as small models.
    fn read(&self, path: &Path) -> Result<(TextModel, Loaded), Failure> {
        let kv = match self.settings.kv_type {
            KvType::F32 => DType::F32,
            KvType::F16 => DType::F16,
            KvType::Bf16 => DType::BF16,
        };
        let (text, loaded) = std::thread::scope(|scope| {
            let text = scope.spawn(|| TextModel::load(path));
            let loaded = omlx_models::load(path, &self.device, &LoadOptions { kv });
            (text.join(), loaded)
        });
        let loaded = loaded.map_err(|error| Failure::Unusable(error.to_string()))?;
        let text = text.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((text.map_err(|error| Failure::Unusable(error.to_string()))?, loaded))
    }

    /// What the guard leaves for keys and values beside the largest step of a model whose weights are promised.
    fn room_beside(&self, model: &impl Model) -> u64 {
        let s = &self.settings;
        let step_bytes = model.step_bytes(s.step_tokens, s.rows.min(s.step_tokens));
        self.guard.as_ref().map_or(u64::MAX, |guard| guard.room().saturating_sub(step_bytes))
    }

    /// The limits for one model, with `room` bytes at most for keys and values.
    fn engine_config(&self, room: u64) -> omlx_engine::Config {
        let s = &self.settings;
        // Without a word from the system only a fixed amount is safe.
        let wish = s.kv_memory.of(free_bytes().unwrap_or(2 << 30));
        omlx_engine::Config {
            block: s.block,
            step_tokens: s.step_tokens,
            chunk_tokens: s.step_tokens,
            rows: s.rows,
            waiting: WAITING,
            context: match s.context {
                Context::Model => None,
                Context::Tokens(tokens) => Some(tokens),
            },
            step_time: s.step_time,
            ..omlx_engine::Config::new(wish.min(room))
        }
    }

    fn wished(&self, model: usize) -> usize {
        match self.settings.context {
            Context::Model => model,
            Context::Tokens(tokens) => tokens.min(model),
        }
    }

    /// Refuses a model whose files alone are larger than the memory that is free, or that the guard has left.
    fn has_room(&self, path: &Path) -> Result<(), Failure> {
        let (need, free) = (weight_bytes(path), free_bytes().unwrap_or(u64::MAX));
        let room = self.guard.as_ref().map_or(u64::MAX, |guard| guard.room());
        if need <= free.min(room) {
            return Ok(());
        }
        let (path, need) = (path.display(), readable(need));
        Err(Failure::NoRoom(if free <= room {
            format!(
                "{path}: its weights take {need}, and {} are free; end other programs, or use a smaller or more strongly \
                 quantised model",
                readable(free)
            )
        } else {
            format!(
                "{path}: its weights take {need}, and the memory guard leaves {}; raise --memory-guard, or use a smaller or \
                 more strongly quantised model",
                readable(room)
            )
        }))
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
