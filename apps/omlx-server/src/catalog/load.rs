//! From a path to a running engine, with the rules of the configuration turned into numbers for this model.
//!
//! Models load side by side: files are read under no lock, so one that hangs is the trouble of those who asked for it.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use candle_core::{DType, Device};
use omlx_blocks::Salt;
use omlx_engine::guard::{Guard, free_bytes};
use omlx_engine::{Place, Turnstile};
use omlx_http::{Bounds, OpenError, Owner, Served, Settings};
use omlx_kv::tier::Tiers;
use omlx_kv::{KvGroup, KvLayout};
use omlx_markup::Markup;
use omlx_models::{LoadOptions, Loaded, Model, ModelCard};
use omlx_text::TextModel;
use tokio::sync::watch;

use super::drawing::Drawing;
use super::promises::{Promises, Settling};
use crate::cli::KvType;
use crate::config::{self, Context, Memory, readable};

/// Requests that may wait for a place among those that are answered; more are told to come again later.
const WAITING: usize = 256;

/// How long a request waits for its model. A large one on a slow disk takes minutes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Text and weights of a model.
type Read = Result<(TextModel, Loaded), Failure>;

/// What reads a model's files.
type Reader = dyn Fn(&Path, &Device, DType) -> Read + Send + Sync;

/// Loads models for one device.
pub(crate) struct Loader {
    settings: config::Settings,
    device: Device,
    turnstile: Arc<Turnstile>,
    promises: Promises,
    /// Under which the models that were loaded write.
    salts: Mutex<HashSet<Salt>>,
    tiers: Option<Arc<Tiers>>,
    /// Reads a model's files; something else in tests.
    pub(super) reader: Box<Reader>,
    /// How long a request waits for its model.
    pub(super) patience: Duration,
    /// Whether the start is complete. Before, what fails is told there and not here.
    pub(super) started: AtomicBool,
    /// Turns true when nobody is to wait for a load any more.
    pub(super) stopping: watch::Sender<bool>,
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
    /// There is no memory for it as long as this server runs with the models that it has loaded.
    #[error("{0}")]
    NeverFits(String),
}

impl Failure {
    /// What is wrong with the files, if anything is.
    pub(super) fn damage(&self) -> Option<&str> {
        if let Self::Unusable(reason) = self { Some(reason) } else { None }
    }

    /// Whether both say the same; how much memory is free at the moment makes no difference.
    pub(super) fn like(&self, other: &Self) -> bool {
        self.damage() == other.damage()
    }
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unusable(reason) => Self::Unusable { reason },
            Failure::NoRoom(reason) => Self::NoRoom { reason },
            Failure::NeverFits(reason) => Self::NeverFits { reason },
        }
    }
}

impl Loader {
    pub(crate) fn new(
        settings: config::Settings,
        device: Device,
        guard: Option<Arc<Guard>>,
        tiers: Option<Arc<Tiers>>,
    ) -> Self {
        Self {
            settings,
            device,
            turnstile: Arc::new(Turnstile::new(1)),
            promises: Promises::new(guard, tiers.clone()),
            salts: Mutex::default(),
            tiers,
            reader: Box::new(read),
            patience: PATIENCE,
            started: AtomicBool::new(false),
            stopping: watch::Sender::new(false),
        }
    }

    /// Loads a model and starts its engine.
    pub(crate) fn load(&self, id: &str, path: &Path, own: Settings) -> Result<Served, Failure> {
        // By then nothing of what failed is promised any more.
        self.start(id, path, own).inspect_err(|_| self.promises.failed())
    }

    fn start(&self, id: &str, path: &Path, own: Settings) -> Result<Served, Failure> {
        let start = Instant::now();
        let expected = self.promises.expect(path)?;
        let kv = match self.settings.kv_type {
            KvType::F32 => DType::F32,
            KvType::F16 => DType::F16,
            KvType::Bf16 => DType::BF16,
        };
        let (text, Loaded { mut model, card }) = (self.reader)(path, &self.device, kv)?;
        model.store(&self.settings.kv_store);
        for warning in &card.warnings {
            tracing::warn!("model {id}: {warning}");
        }
        if let Some(fault) = text.template_fault() {
            tracing::warn!("model {id}: {fault}");
        } else if !text.has_template() {
            tracing::info!("model {id} has no chat template: chats are refused, /v1/completions works");
        }
        let settling = self.promises.settle(expected, card.weight_bytes);
        let served = self.open((id, own), path, (text, model, &card), settling)?;
        tracing::info!(
            "loaded model {id} in {:.1} s: {}, {:.0} M parameters, {} in {}, context {}; {}; {}",
            start.elapsed().as_secs_f32(),
            card.arch,
            card.parameters as f64 / 1e6,
            readable(card.weight_bytes),
            mixture(&card),
            served.bounds.most(),
            Drawing { owner: &served.owner, author: served.text.defaults() },
            speaks(served.markup)
        );
        Ok(served)
    }

    /// Starts the engine of a model that was read.
    fn open(
        &self,
        (id, own): (&str, Settings),
        path: &Path,
        (text, model, card): (TextModel, impl Model + 'static, &ModelCard),
        mut settling: Settling<'_>,
    ) -> Result<Served, Failure> {
        let mut room = self.room_beside(&model, settling.room_bytes);
        let mut config = self.engine_config(room);
        if config.kv_bytes == room
            && let Err(omlx_engine::Error::Cache(omlx_kv::Error::Budget { least_bytes, .. })) = config.fit(&model)
        {
            // What is kept of prompts gives way to the least that a model can do with.
            let need = self.step_bytes(&model).saturating_add(least_bytes);
            if settling.widen(need.saturating_sub(settling.room_bytes)) {
                room = self.room_beside(&model, settling.room_bytes);
                config = self.engine_config(room);
            }
        }
        // Whether even the most that may ever be left would be too small.
        let best = settling.best_bytes.map(|best| self.room_beside(&model, best));
        let whose = match (config.kv_bytes == room, settling.guarded()) {
            (false, _) => Whose::Flag(self.settings.kv_memory),
            (true, true) => Whose::Guard,
            (true, false) => Whose::Machine,
        };
        let fault = |error: omlx_engine::Error| {
            let omlx_engine::Error::Cache(omlx_kv::Error::Budget { budget_bytes, least_bytes, tokens }) = error else {
                return Failure::NoRoom(format!("{}: {error}", path.display()));
            };
            let said = format!(
                "{}: {} for keys and values are too small: a sequence of {tokens} tokens takes {}; {whose}",
                path.display(),
                readable(budget_bytes),
                readable(least_bytes)
            );
            // A fixed size never grows, and a share or the guard's may.
            match whose {
                Whose::Flag(Memory::Bytes(_)) => Failure::Unusable(said),
                Whose::Guard if best.is_some_and(|best| best < least_bytes) => Failure::NeverFits(said),
                Whose::Flag(share) if best.is_some_and(|best| share.of(best) < least_bytes) => Failure::NeverFits(said),
                _ => Failure::NoRoom(said),
            }
        };
        let fit = config.fit(&model).map_err(fault)?;
        let memory = settling.keep(fit.kv_bytes + fit.step_bytes);
        let bounds = Bounds { context: fit.context, capacity: fit.capacity };
        if bounds.capacity < bounds.context {
            let Bounds { context, capacity } = bounds;
            tracing::warn!(
                "model {id}: its KV memory of {} holds {capacity} tokens, not the context's {context}; \
                 raise --kv-memory or --memory-guard, or take --kv-bits 8",
                readable(config.kv_bytes)
            );
        }
        // Another version, or another way to compute, may round otherwise.
        let kernels = format!("{:?} {}", omlx_ops::kernels(), std::env::consts::ARCH);
        let salt = Salt::of(&[
            ("version", env!("CARGO_PKG_VERSION").as_bytes()),
            ("numerics", &omlx_models::NUMERICS.to_le_bytes()),
            ("kernels", kernels.as_bytes()),
            ("weights", &card.fingerprint),
            ("kv", stored(model.layout()).as_bytes()),
            ("block", &self.settings.block.to_le_bytes()),
        ]);
        self.say_what_is_kept(id, &salt);
        let place = Place { turnstile: Arc::clone(&self.turnstile), memory, tiers: self.tiers.clone() };
        let engine = omlx_engine::spawn(Box::new(model), salt, &self.device, config, place).map_err(fault)?;
        let owner = Owner { all: self.settings.sampling, model: own };
        let markup = own.markup(&text);
        Ok(Served { id: id.to_owned(), engine, text: Arc::new(text), bounds, owner, markup })
    }

    /// A folder full of blocks that no model here can use looks like a cache that does not work.
    fn say_what_is_kept(&self, id: &str, salt: &Salt) {
        let Some(census) = self.tiers.as_ref().and_then(|tiers| tiers.census()) else { return };
        let mut known = self.salts.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(*salt);
        let others = census.strangers(&known);
        match census.by_salt.get(salt) {
            Some(own) => tracing::info!("prefix cache: {} blocks ({}) for {id}", own.count, readable(own.bytes)),
            None if others.count > 0 => tracing::warn!(
                "prefix cache: none of the {} blocks ({}) on disk were written for the weights and settings (--block, --kv-dtype, \
                 --kv-bits, --kernels) of {id}; they stay for others until room is needed",
                others.count,
                readable(others.bytes)
            ),
            None => {}
        }
    }

    /// What of `room` is left for keys and values beside the largest step.
    fn room_beside(&self, model: &impl Model, room: u64) -> u64 {
        room.saturating_sub(self.step_bytes(model))
    }

    /// What the largest step takes.
    fn step_bytes(&self, model: &impl Model) -> u64 {
        let s = &self.settings;
        model.step_bytes(s.step_tokens, s.rows.min(s.step_tokens))
    }

    /// The limits for one model, with `room` bytes at most for keys and values.
    fn engine_config(&self, room: u64) -> omlx_engine::Config {
        let s = &self.settings;
        // Without a word from the system only a fixed amount is safe. What other models were promised is free until they touch it, and
        // a share is of what is left: so the next model finds something too.
        let wish = s.kv_memory.of(free_bytes().unwrap_or(2 << 30).min(room));
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
}

/// Who set the limit that was too small for keys and values.
#[derive(Clone, Copy)]
enum Whose {
    /// `--kv-memory`.
    Flag(Memory),
    /// The memory guard.
    Guard,
    /// Nobody: no more memory is free.
    Machine,
}

impl fmt::Display for Whose {
    /// The way out, in terms of the flag that helps; the library that found it out knows no flags.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(size @ Memory::Bytes(_)) => write!(f, "raise --kv-memory, which is {size}"),
            Self::Flag(share @ Memory::Percent(_)) => {
                write!(
                    f,
                    "raise --kv-memory, which is {share} of the memory that is free and not promised to other models"
                )
            }
            Self::Guard => f.write_str("the memory guard leaves no more, raise --memory-guard"),
            Self::Machine => f.write_str("no more memory is free, end other programs or use a smaller model"),
        }
    }
}

/// Which layers are stored how: no block of one way matches another's.
fn stored(layout: &KvLayout) -> String {
    let group = |group: &KvGroup| format!("{:?} {};", group.layers, group.codec.name());
    layout.groups.iter().map(group).collect()
}

/// Text and weights, read at the same time: large vocabularies take as long as small models.
pub(super) fn read(path: &Path, device: &Device, kv: DType) -> Read {
    let (text, loaded) = std::thread::scope(|scope| {
        let text = scope.spawn(|| TextModel::load(path));
        let loaded = omlx_models::load(path, device, &LoadOptions { kv });
        (text.join(), loaded)
    });
    let loaded = loaded.map_err(|error| Failure::Unusable(error.to_string()))?;
    let text = text.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok((text.map_err(|error| Failure::Unusable(error.to_string()))?, loaded))
}

/// How the model writes calls and thoughts, for the log.
fn speaks(markup: Markup) -> String {
    let word = |format: Option<String>| format.unwrap_or_else(|| "none".to_owned());
    let (format, thinking) = (markup.format.map(|f| f.to_string()), markup.thinking.map(|t| t.to_string()));
    format!("tool_format {}, thinking {}", word(format), word(thinking))
}

/// The types that the weights are stored in, the most used one first: files named after one type hold several.
fn mixture(card: &ModelCard) -> String {
    // Norms and biases are f32 in nearly every file and next to nothing.
    let share = |bytes: u64| bytes as f64 / card.weight_bytes.max(1) as f64 * 100.0;
    let kinds: Vec<_> = card.dtypes.iter().filter(|(_, bytes)| share(*bytes) >= 0.5).collect();
    match kinds.as_slice() {
        [(kind, _)] => (*kind).to_owned(),
        several => several.iter().map(|(kind, n)| format!("{kind} {:.0}%", share(*n))).collect::<Vec<_>>().join(", "),
    }
}
