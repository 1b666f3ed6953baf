//! The pools: for every layer, room for the keys and values of its group's blocks.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use omlx_blocks::GroupSize;
use omlx_ops::{
    Attend, Coded, CodedPool, Coding, Pool, attention, attention_coded, empty_pool, read_codes, write_codes,
    write_slots,
};

use crate::{Batch, Codec, KvGroup, KvLayout, Result};

pub(crate) struct LayerPool {
    group: usize,
    store: Store,
}

impl LayerPool {
    /// Everything that is stored, keys before values.
    pub(crate) fn tensors(&self) -> Vec<&Tensor> {
        match &self.store {
            Store::Plain { k, v } => vec![k, v],
            Store::Coded { k, v } => vec![&k.codes, &k.scales, &v.codes, &v.scales],
        }
    }
}

/// A layer's keys and values, by its group's codec.
enum Store {
    Plain {
        k: Tensor, // [slots, Hkv, D]
        v: Tensor, // [slots, Hkv, D]
    },
    Coded {
        k: Codes,
        v: Codes,
    },
}

struct Codes {
    codes: Tensor,  // [slots, Hkv, bytes] u8
    scales: Tensor, // [slots, Hkv] f16
    coding: Arc<Coding>,
}

impl Codes {
    fn zeros(of: &KvGroup, slots: usize, coding: &Arc<Coding>, device: &Device) -> Result<Self> {
        let codes = empty_pool(&[slots, of.heads, coding.code_bytes()], DType::U8, device)?;
        let scales = empty_pool(&[slots, of.heads], DType::F16, device)?;
        Ok(Self { codes, scales, coding: coding.clone() })
    }

    fn pool(&self) -> Coded<'_> {
        Coded { codes: &self.codes, scales: &self.scales, coding: &self.coding }
    }
}

/// Keys and values of all layers of one model.
pub struct KvCache {
    layout: KvLayout,
    block: usize,
    pub(crate) layers: Vec<LayerPool>,
}

impl std::fmt::Debug for KvCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KvCache({} layers, blocks of {})", self.layers.len(), self.block)
    }
}

impl KvCache {
    /// Allocates pools of the given sizes, one per group of the layout, in blocks of `block` tokens.
    ///
    /// # Errors
    /// When the device has no room.
    ///
    /// # Panics
    /// When the sizes are not one per group, or the groups do not cover layers 0, 1, 2 … once each.
    pub fn new(layout: KvLayout, sizes: &[GroupSize], block: usize, device: &Device) -> Result<Self> {
        assert_eq!(layout.groups.len(), sizes.len(), "one size per group");
        let count: usize = layout.groups.iter().map(|g| g.layers.len()).sum();
        let group_of = |layer: usize| {
            let mut groups = layout.groups.iter().enumerate().filter(|(_, g)| g.layers.contains(&layer));
            let found = groups.next().expect("every layer is in a group").0;
            assert!(groups.next().is_none(), "layer {layer} is in one group only");
            found
        };
        // a rotation per group, not per layer
        let codings: Vec<_> = layout.groups.iter().map(codings).collect();
        let layers = (0..count)
            .map(|layer| {
                let group = group_of(layer);
                let (of, slots) = (&layout.groups[group], sizes[group].blocks * block);
                let store = match (&of.codec, &codings[group]) {
                    (Codec::Plain(dtype), _) => {
                        let zeros = || empty_pool(&[slots, of.heads, of.dim], *dtype, device);
                        Store::Plain { k: zeros()?, v: zeros()? }
                    }
                    (Codec::Turbo(_), codings) => {
                        let (k, v) = codings.as_ref().expect("made for every coded group");
                        Store::Coded { k: Codes::zeros(of, slots, k, device)?, v: Codes::zeros(of, slots, v, device)? }
                    }
                };
                Ok(LayerPool { group, store })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { layout, block, layers })
    }

    /// The layout that this cache was made for.
    pub fn layout(&self) -> &KvLayout {
        &self.layout
    }

    /// Tokens per block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// The part of the cache that one layer sees in one step.
    pub fn layer<'a>(&'a self, layer: usize, batch: &'a Batch) -> LayerKv<'a> {
        let pool = &self.layers[layer];
        LayerKv { pool, view: &batch.views[pool.group], block: self.block }
    }
}

/// One layer's keys and values, for the rows of one step.
pub struct LayerKv<'a> {
    pool: &'a LayerPool,
    view: &'a omlx_ops::RowView,
    block: usize,
}

impl std::fmt::Debug for LayerKv<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LayerKv(group {}, {} rows)", self.pool.group, self.view.rows())
    }
}

impl LayerKv<'_> {
    /// Stores the keys and values of the step's tokens, `[T, Hkv, D]` f32 each.
    ///
    /// # Errors
    /// When the shapes are not those of the layer.
    pub fn write(&self, k: &Tensor, v: &Tensor) -> Result<()> {
        let slots = &self.view.slots;
        match &self.pool.store {
            Store::Plain { k: keys, v: values } => {
                write_slots(keys, k, slots)?;
                write_slots(values, v, slots)?;
            }
            Store::Coded { k: keys, v: values } => {
                write_codes(keys.pool(), k, slots)?;
                write_codes(values.pool(), v, slots)?;
            }
        }
        Ok(())
    }

    /// Attention of the step's queries `[T, Hq, D]` over everything stored, this step's tokens included. `[T, Hq, D]` f32.
    ///
    /// # Errors
    /// When the shapes are not those of the layer.
    pub fn attend(&self, q: &Tensor, how: &Attend) -> Result<Tensor> {
        let block = self.block;
        Ok(match &self.pool.store {
            Store::Plain { k, v } => attention(q, Pool { k, v, block }, self.view, how)?,
            Store::Coded { k, v } => attention_coded(q, CodedPool { k: k.pool(), v: v.pool(), block }, self.view, how)?,
        })
    }

    /// Tokens per block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// What is stored at the given pool rows, as f32: keys and values, `[N, Hkv, D]` each. For checks and tests.
    ///
    /// # Errors
    /// When a slot lies outside the pool.
    pub fn read(&self, slots: &[u32]) -> Result<(Tensor, Tensor)> {
        let (k, v) = match &self.pool.store {
            Store::Coded { k, v } => return Ok((read_codes(k.pool(), slots)?, read_codes(v.pool(), slots)?)),
            Store::Plain { k, v } => (k, v),
        };
        let slots = Tensor::new(slots, k.device())?;
        let of = |pool: &Tensor| -> Result<Tensor> { Ok(pool.index_select(&slots, 0)?.to_dtype(DType::F32)?) };
        Ok((of(k)?, of(v)?))
    }
}

/// How a coded group codes keys and values.
fn codings(group: &KvGroup) -> Option<(Arc<Coding>, Arc<Coding>)> {
    let Codec::Turbo(turbo) = &group.codec else { return None };
    let (k, v) = turbo.codings(group.dim);
    Some((Arc::new(k), Arc::new(v)))
}
