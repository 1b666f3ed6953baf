//! The pools: for every layer, room for the keys and values of its group's blocks.

use candle_core::{DType, Device, Tensor};
use omlx_blocks::GroupSize;
use omlx_ops::{Attend, Pool, attention, write_slots};

use crate::{Batch, Codec, KvLayout, Result};

pub(crate) struct LayerPool {
    pub(crate) group: usize,
    pub(crate) k: Tensor, // [slots, Hkv, D]
    pub(crate) v: Tensor, // [slots, Hkv, D]
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
        let layers = (0..count)
            .map(|layer| {
                let group = group_of(layer);
                let of = &layout.groups[group];
                let Codec::Plain(dtype) = of.codec;
                let shape = (sizes[group].blocks * block, of.heads, of.dim);
                let zeros = || Tensor::zeros(shape, dtype, device);
                Ok(LayerPool { group, k: zeros()?, v: zeros()? })
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
        write_slots(&self.pool.k, k, &self.view.slots)?;
        write_slots(&self.pool.v, v, &self.view.slots)?;
        Ok(())
    }

    /// Attention of the step's queries `[T, Hq, D]` over everything stored, this step's tokens included. `[T, Hq, D]` f32.
    ///
    /// # Errors
    /// When the shapes are not those of the layer.
    pub fn attend(&self, q: &Tensor, how: &Attend) -> Result<Tensor> {
        let pool = Pool { k: &self.pool.k, v: &self.pool.v, block: self.block };
        Ok(attention(q, pool, self.view, how)?)
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
        let slots = Tensor::new(slots, self.pool.k.device())?;
        let of = |pool: &Tensor| -> Result<Tensor> { Ok(pool.index_select(&slots, 0)?.to_dtype(DType::F32)?) };
        Ok((of(&self.pool.k)?, of(&self.pool.v)?))
    }
}
