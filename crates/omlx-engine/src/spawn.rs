//! Starting an engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use candle_core::Device;
use omlx_api::{EngineHandle, channel};
use omlx_blocks::{Ledger, Salt};
use omlx_kv::KvCache;
use omlx_kv::tier::Tiers;
use omlx_models::Model;
use omlx_sched::{Sched, Target};

use crate::clock::Clock;
use crate::config::{MIN_CHUNK, PATIENCE};
use crate::engine::Engine;
use crate::guard::Promise;
use crate::press::Press;
use crate::sampler::Scratch;
use crate::stats::Stats;
use crate::tiering::Tiering;
use crate::turnstile::Turnstile;
use crate::{Config, Error};

/// What an engine shares with others.
#[derive(Debug, Default)]
pub struct Place {
    /// The turns on its device, shared by all engines of it.
    pub turnstile: Arc<Turnstile>,
    /// What was promised to it, in the ledger of the guard that it asks between steps. `None`: nobody watches the memory.
    pub memory: Option<Promise>,
    /// Slower places for blocks, shared by all engines of this process. `None`: what its pools give up is lost.
    pub tiers: Option<Arc<Tiers>>,
}

/// Starts a thread that owns `model` and answers what is sent to the handle.
///
/// `salt` is everything that shapes the cache's content but tokens and block size: the weights' fingerprint and the
/// cache's dtype. The thread ends, and the model is freed, when the
/// handle says [`stop`](EngineHandle::stop) (everyone inside gets `Failed(Stopped)` at the next step boundary), when
/// the last handle is dropped and the tickets are answered, or when several steps in a row fail.
///
/// # Errors
/// When the limits cannot work for this model, its cache cannot be had, or there is no thread.
pub fn spawn(
    model: Box<dyn Model>,
    salt: Salt,
    device: &Device,
    config: Config,
    place: Place,
) -> Result<EngineHandle, Error> {
    let fit = config.fit(&*model)?;
    let kv = KvCache::new(model.layout().clone(), &fit.sizes, config.block, device)?;
    let limits = omlx_sched::Config {
        step_tokens: config.step_tokens,
        rows: config.rows,
        chunk_tokens: config.chunk_tokens,
        waiting: config.waiting,
        context: fit.context,
        head_start: config.head_start,
        target: config.step_time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)).map(|micros| Target {
            micros,
            idle_micros: micros.saturating_mul(PATIENCE),
            min_chunk: MIN_CHUNK,
            depth: model.depth(),
        }),
    };
    let mut sched = Sched::new(limits, Ledger::new(config.block, &fit.sizes, salt));
    let (handle, mailbox) = channel(config.waiting);
    let Place { turnstile, memory, tiers } = place;
    let tiering = tiers.map(|tiers| {
        sched.listen();
        Tiering::new(tiers, salt, mailbox.bell())
    });
    if let Some(promise) = &memory {
        promise.guard().wakes(mailbox.bell());
    }
    let engine = Engine {
        device: device.clone(),
        model,
        kv,
        sched,
        mailbox,
        depth: config.waiting,
        turnstile,
        press: memory.map(Press::new),
        tiering,
        live: BTreeMap::new(),
        next_seq: 0,
        scratch: Scratch::default(),
        stats: Stats::default(),
        clock: Clock::new(Instant::now()),
        failures: 0,
    };
    thread::Builder::new().name("omlx-engine".to_owned()).spawn(move || engine.run())?;
    Ok(handle)
}
