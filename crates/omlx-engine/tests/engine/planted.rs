//! A model that behaves until it is told not to: the real work first, then the fault.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use candle_core::{Device, Result, Tensor};
use omlx_engine::Config;
use omlx_kv::{Batch, KvCache, KvLayout};
use omlx_models::{EchoModel, Model};
use omlx_ops::Reach;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Nothing,
    Panic,
    Error,
    /// The device has no memory for a buffer.
    Memory,
    /// One row too few.
    Shape,
    /// NaN wherever the row's last token is this one.
    NanAfter(u32),
}

/// A model with a fault at one of its steps.
pub(crate) struct Planted<M> {
    pub(crate) inner: M,
    pub(crate) fault: Fault,
    /// Which steps it hits.
    pub(crate) at: fn(usize) -> bool,
    pub(crate) watch: Arc<Watch>,
}

/// What a test sees of a model that it has given away, and a gate in front of its steps.
pub(crate) struct Watch {
    /// Steps that have come to the gate.
    pub(crate) arrived: AtomicUsize,
    /// Steps begun.
    pub(crate) steps: AtomicUsize,
    /// Most rows in one step.
    pub(crate) most_rows: AtomicUsize,
    pub(crate) freed: AtomicBool,
    /// Tokens of each step.
    pub(crate) sizes: Mutex<Vec<usize>>,
    /// How long a step takes longer, per token.
    pub(crate) slowness: Duration,
    /// The next request finds a model that cannot even say its vocabulary.
    pub(crate) mute: AtomicBool,
    pub(crate) allowed: AtomicUsize,
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            arrived: AtomicUsize::new(0),
            steps: AtomicUsize::new(0),
            most_rows: AtomicUsize::new(0),
            freed: AtomicBool::new(false),
            sizes: Mutex::default(),
            slowness: Duration::ZERO,
            mute: AtomicBool::new(false),
            allowed: AtomicUsize::new(usize::MAX),
        }
    }
}

impl Watch {
    /// Lets `n` more steps begin; those after them wait.
    pub(crate) fn allow(&self, n: usize) {
        let steps = self.steps.load(Ordering::SeqCst);
        self.allowed.store(steps.saturating_add(n), Ordering::SeqCst);
    }

    /// Whether all allowed steps have begun.
    pub(crate) fn used_up(&self) -> bool {
        self.steps.load(Ordering::SeqCst) >= self.allowed.load(Ordering::SeqCst)
    }
}

/// An echo with two groups behind the faults.
pub(crate) fn echo(fault: Fault, at: fn(usize) -> bool, watch: Watch) -> (Planted<EchoModel>, Arc<Watch>) {
    let watch = Arc::new(watch);
    let inner = EchoModel::new(&[Reach::All, Reach::Last(9)], 100, 4_096);
    (Planted { inner, fault, at, watch: Arc::clone(&watch) }, watch)
}

/// Limits in which four rows of 32 tokens fill a step.
pub(crate) fn config() -> Config {
    Config { block: 16, step_tokens: 32, chunk_tokens: 32, rows: 4, waiting: 8, ..Config::new(4 << 20) }
}

impl<M: Model> Model for Planted<M> {
    fn layout(&self) -> &KvLayout {
        self.inner.layout()
    }

    fn forward(&self, batch: &Batch, kv: &KvCache) -> Result<Tensor> {
        self.watch.arrived.fetch_add(1, Ordering::SeqCst);
        while self.watch.used_up() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let step = self.watch.steps.fetch_add(1, Ordering::SeqCst);
        let rows = batch.starts.len() - 1;
        self.watch.most_rows.fetch_max(rows, Ordering::SeqCst);
        self.watch.sizes.lock().unwrap().push(batch.tokens.len());
        std::thread::sleep(self.watch.slowness * batch.tokens.len() as u32);
        let logits = self.inner.forward(batch, kv)?;
        match self.fault {
            Fault::Panic if (self.at)(step) => panic!("planted panic"),
            Fault::Error if (self.at)(step) => candle_core::bail!("planted error"),
            Fault::Memory if (self.at)(step) => {
                let source = std::io::ErrorKind::OutOfMemory.into();
                Err(omlx_ops::Error::Memory { bytes: 77 << 20, source }.into())
            }
            Fault::Shape if (self.at)(step) => logits.narrow(0, 0, batch.wanted.len() - 1),
            Fault::NanAfter(id) => {
                let mut rows = logits.to_vec2::<f32>()?;
                for (row, &place) in rows.iter_mut().zip(&batch.wanted) {
                    if batch.tokens[place as usize] == id {
                        row[3] = f32::NAN;
                    }
                }
                if rows.is_empty() { Ok(logits) } else { Tensor::new(rows, &Device::Cpu) }
            }
            _ => Ok(logits),
        }
    }

    fn vocab(&self) -> usize {
        assert!(!self.watch.mute.load(Ordering::SeqCst), "planted panic outside of a step");
        self.inner.vocab()
    }

    fn context(&self) -> usize {
        self.inner.context()
    }
}

impl<M> Drop for Planted<M> {
    fn drop(&mut self) {
        self.watch.freed.store(true, Ordering::SeqCst);
    }
}
