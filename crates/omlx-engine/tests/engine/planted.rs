//! A model that behaves until it is told not to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use candle_core::{Device, Result, Tensor};
use omlx_kv::{Batch, KvCache, KvLayout};
use omlx_models::{EchoModel, Model};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Nothing,
    Panic,
    Error,
    /// One row too few.
    Shape,
    /// NaN wherever the row's last token is this one.
    NanAfter(u32),
}

/// An echo with a fault at one of its steps.
pub(crate) struct Planted {
    pub(crate) inner: EchoModel,
    pub(crate) fault: Fault,
    pub(crate) at_step: usize,
    pub(crate) watch: Arc<Watch>,
}

/// What a test sees of a model that it has given away.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) steps: AtomicUsize,
    pub(crate) most_rows: AtomicUsize,
    pub(crate) freed: AtomicBool,
}

impl Model for Planted {
    fn layout(&self) -> &KvLayout {
        self.inner.layout()
    }

    fn forward(&self, batch: &Batch, kv: &KvCache) -> Result<Tensor> {
        let step = self.watch.steps.fetch_add(1, Ordering::SeqCst);
        self.watch.most_rows.fetch_max(batch.starts.len() - 1, Ordering::SeqCst);
        let logits = self.inner.forward(batch, kv)?;
        match self.fault {
            Fault::Panic if step == self.at_step => panic!("planted panic"),
            Fault::Error if step == self.at_step => candle_core::bail!("planted error"),
            Fault::Shape if step == self.at_step => logits.narrow(0, 0, batch.wanted.len() - 1),
            Fault::NanAfter(id) => {
                let mut rows = logits.to_vec2::<f32>()?;
                for (row, &place) in rows.iter_mut().zip(&batch.wanted) {
                    if batch.tokens[place as usize] == id {
                        row[3] = f32::NAN;
                    }
                }
                Tensor::new(rows, &Device::Cpu)
            }
            _ => Ok(logits),
        }
    }

    fn vocab(&self) -> usize {
        self.inner.vocab()
    }

    fn context(&self) -> usize {
        self.inner.context()
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        self.watch.freed.store(true, Ordering::SeqCst);
    }
}
