//! Models on a real ledger and cache, without a scheduler: what the golden and real tests share.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use omlx_blocks::{GroupId, GroupSize, Ledger, Salt, SeqId};
use omlx_kv::{Batch, BatchRow, KvCache};
use omlx_models::{LoadOptions, Model, Transformer, load};

/// A model with a cache that holds four sequences.
pub(crate) struct Run {
    pub(crate) model: Transformer,
    kv: KvCache,
    ledger: Ledger,
    /// Tokens of each sequence so far; the first is the one that `step` feeds.
    rows: Vec<Vec<u32>>,
}

impl Run {
    pub(crate) fn new(path: &Path, block: usize, context: usize) -> Self {
        let loaded = load(path, &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap_or_else(|e| panic!("{e}"));
        Self::of(loaded.model, block, context)
    }

    pub(crate) fn of(model: Transformer, block: usize, context: usize) -> Self {
        let blocks = 4 * context.div_ceil(block) + 4;
        let sizes: Vec<GroupSize> =
            model.layout().groups.iter().map(|g| GroupSize { reach: g.reach, blocks }).collect();
        let kv = KvCache::new(model.layout().clone(), &sizes, block, &Device::Cpu).unwrap();
        let ledger = Ledger::new(block, &sizes, Salt::of(&[("test", b"run")]));
        Self { model, kv, ledger, rows: Vec::new() }
    }

    /// Feeds the next tokens of the first sequence; logits of the last `wanted` of them.
    pub(crate) fn step(&mut self, tokens: &[u32], wanted: usize) -> Vec<Vec<f32>> {
        self.step_tapped(tokens, wanted, &mut |_, _| Ok(()))
    }

    pub(crate) fn step_tapped(
        &mut self,
        tokens: &[u32],
        wanted: usize,
        tap: &mut dyn FnMut(usize, &Tensor) -> candle_core::Result<()>,
    ) -> Vec<Vec<f32>> {
        self.feed(&[tokens], wanted, tap)
    }

    /// Feeds new sequences in one step; logits of the last token of each.
    pub(crate) fn step_many(&mut self, rows: &[&[u32]]) -> Vec<Vec<f32>> {
        self.feed(rows, 1, &mut |_, _| Ok(()))
    }

    fn feed(
        &mut self,
        new: &[&[u32]],
        wanted: usize,
        tap: &mut dyn FnMut(usize, &Tensor) -> candle_core::Result<()>,
    ) -> Vec<Vec<f32>> {
        let mut starts = Vec::new();
        for (i, tokens) in new.iter().enumerate() {
            let seq = SeqId(i as u64);
            if i == self.rows.len() {
                self.ledger.open(seq, &[], 0);
                self.rows.push(Vec::new());
            }
            starts.push(self.rows[i].len());
            self.rows[i].extend(*tokens);
            self.ledger.grow(seq, self.rows[i].len()).expect("a large enough cache");
        }
        let groups = self.model.layout().groups.len();
        let rows: Vec<BatchRow<'_>> = new
            .iter()
            .enumerate()
            .map(|(i, tokens)| BatchRow {
                tokens,
                start: starts[i],
                logits: wanted,
                tables: (0..groups as u32).map(|g| self.ledger.table(SeqId(i as u64), GroupId(g))).collect(),
            })
            .collect();
        let batch = Batch::new(&rows, groups, self.ledger.block());
        let logits = self.model.forward_tapped(&batch, &self.kv, tap).unwrap();
        for (i, tokens) in self.rows.iter().enumerate().take(new.len()) {
            self.ledger.seal(SeqId(i as u64), tokens, tokens.len());
        }
        self.ledger.check();
        logits.to_vec2().unwrap()
    }
}

pub(crate) fn argmax(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().fold(0, |best, (i, l)| if *l > logits[best] { i } else { best });
    best as u32
}

pub(crate) fn vector(x: &Tensor) -> Vec<f32> {
    x.flatten_all().unwrap().to_vec1().unwrap()
}

pub(crate) fn norm(x: &[f32]) -> f64 {
    x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt()
}
