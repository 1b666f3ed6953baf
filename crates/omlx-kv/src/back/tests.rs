//! What blocks that stay hold before and after others are given back, in every way of storing.

use candle_core::{DType, Device, Tensor};
use omlx_blocks::{BlockId, GroupId, GroupSize, Reach};

use crate::{Batch, Codec, KvCache, KvGroup, KvLayout};
use omlx_ops::RowView;

const BLOCK: usize = 64;

/// Two layers of one group and one of another; ten blocks each, all written.
#[track_caller]
fn check(codec: Codec) {
    let group = |layers: &[usize]| KvGroup { layers: layers.to_vec(), heads: 4, dim: 64, reach: Reach::All, codec };
    let layout = KvLayout { groups: vec![group(&[0, 2]), group(&[1])] };
    let sizes = [GroupSize { reach: Reach::All, blocks: 10 }; 2];
    let kv = KvCache::new(layout, &sizes, BLOCK, &Device::Cpu).unwrap();
    let slots: Vec<u32> = (0..10 * BLOCK as u32).collect();
    let view = RowView { slots: slots.clone(), ..RowView::default() };
    let batch = Batch { views: vec![view.clone(), view], ..Batch::default() };
    for layer in 0..3 {
        let x = Tensor::randn(0f32, 1.0, (10 * BLOCK, 4, 64), &Device::Cpu).unwrap();
        kv.layer(layer, &batch).write(&x, &x).unwrap();
    }
    let bytes = |group, block| kv.export(GroupId(group), BlockId(block)).unwrap();
    let before: Vec<_> = (0..2).flat_map(|g| (0..10).map(move |b| (g, b))).map(|(g, b)| bytes(g, b)).collect();
    let gone = [1, 2, 3, 7, 9];
    let given = kv.give_back(GroupId(0), &gone.map(BlockId)).unwrap();
    // Seen to fail: only the first layer of the group; the other group's pools.
    for (i, before) in before.iter().enumerate() {
        let (g, b) = (i as u32 / 10, i as u32 % 10);
        assert!((g == 0 && gone.contains(&b)) || bytes(g, b) == *before, "block {b} of group {g} is another's");
    }
    let zeros: usize = gone.iter().map(|b| bytes(0, *b).as_slice().iter().filter(|byte| **byte == 0).count()).sum();
    assert!(zeros as u64 >= given, "{zeros} of {given}");
    if kv.gives_back() && codec == Codec::Plain(DType::F32) {
        // Blocks of 64 KiB in each of four tensors, and three runs.
        assert!(given > 4 * (5 << 16) - 4 * 3 * 2 * 4096, "{given}");
    }
}

#[test]
fn floats() {
    check(Codec::Plain(DType::F32));
    check(Codec::Plain(DType::F16));
}
