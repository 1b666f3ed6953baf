//! Out and in again, bit for bit, in every type and in models of several groups.

use candle_core::{DType, Device, Tensor};
use omlx_blocks::{BlockId, GroupId, GroupSize, Reach};

use super::BlockBytes;
use crate::buffers::Buffer;
use crate::{Codec, Error, KvCache, KvGroup, KvLayout, Turbo, Width};

const BLOCK: usize = 4;

fn cache(groups: &[(Vec<usize>, usize, usize, Reach, Codec)]) -> KvCache {
    let group = |(layers, heads, dim, reach, codec): &(Vec<usize>, usize, usize, Reach, Codec)| KvGroup {
        layers: layers.clone(),
        heads: *heads,
        dim: *dim,
        reach: *reach,
        codec: *codec,
    };
    let sizes: Vec<_> = groups.iter().map(|(_, _, _, reach, _)| GroupSize { reach: *reach, blocks: 5 }).collect();
    KvCache::new(KvLayout { groups: groups.iter().map(group).collect() }, &sizes, BLOCK, &Device::Cpu).unwrap()
}

/// Fills all pools with numbers that occur once each, and with the ones that a conversion would change.
fn fill(kv: &KvCache) {
    for (layer, pool) in kv.layers.iter().enumerate() {
        for (part, tensor) in pool.tensors().into_iter().enumerate() {
            let count = tensor.elem_count();
            let odd = [f32::NAN, f32::INFINITY, -0.0, f32::MIN_POSITIVE, 1e-41, 65504.0];
            let number = |i: usize| match i % 7 {
                // bytes have no such numbers, and only 256 of the others
                _ if tensor.dtype() == DType::U8 => ((i * 31 + 7 * layer + 3 * part) % 251) as f32,
                0 => odd[(i / 7 + layer) % odd.len()],
                _ => (i + 1000 * layer + 500 * part) as f32 * 0.37 - 80.0,
            };
            let all: Vec<f32> = (0..count).map(number).collect();
            let all = Tensor::from_vec(all, tensor.dims(), &Device::Cpu).unwrap().to_dtype(tensor.dtype()).unwrap();
            tensor.slice_set(&all, 0, 0).unwrap();
        }
    }
}

/// Everything in all pools as bytes.
fn all(kv: &KvCache, groups: usize) -> Vec<Vec<BlockBytes>> {
    let of = |g| (0..5).map(|b| kv.export(GroupId(g), BlockId(b)).unwrap()).collect();
    (0..groups as u32).map(of).collect()
}

/// Seen to fail: the first row counted in blocks.
#[test]
fn blocks_come_back_bit_for_bit_in_another_place_and_change_nothing_else() {
    let coded = Codec::Turbo(Turbo { keys: Width::Four, values: Width::Three, seed: 0 });
    let plain = [DType::F32, DType::F16, DType::BF16].map(Codec::Plain);
    for codec in plain.into_iter().chain([coded]) {
        let of = [
            (vec![0, 2], 2, 8, Reach::All, codec),
            (vec![1, 3, 4], 1, 16, Reach::Last(6), codec),
            (vec![5], 3, 4, Reach::Keep { first: 2, last: 5 }, Codec::Plain(DType::F32)), // mixed types in one model
        ];
        let kv = cache(&of);
        fill(&kv);
        let before = all(&kv, 3);
        for g in 0..3 {
            for (from, to) in [(0, 4), (4, 0), (2, 3), (1, 1)] {
                let group = GroupId(g);
                let other = cache(&of);
                other.import(group, BlockId(to), &before[g as usize][from as usize]).unwrap();
                let after = all(&other, 3);
                for (g2, blocks) in after.iter().enumerate() {
                    for (b, bytes) in blocks.iter().enumerate() {
                        let filled = g2 == g as usize && b == to as usize;
                        if filled {
                            assert!(*bytes == before[g2][from as usize], "{codec:?} group {g} {from} to {to}");
                        } else {
                            assert!(
                                bytes.as_slice().iter().all(|b| *b == 0),
                                "{codec:?}: group {g2} block {b} was touched"
                            );
                        }
                    }
                }
            }
        }
        assert!(all(&kv, 3) == before, "exporting changes nothing");
        // all blocks are told apart, or the test above says nothing
        for g in &before {
            assert!((0..5).all(|i| (0..i).all(|j| g[i] != g[j])));
        }
    }
}

#[test]
fn content_of_another_size_is_refused_and_nothing_is_written() {
    let kv = cache(&[(vec![0], 1, 8, Reach::All, Codec::Plain(DType::F32))]);
    fill(&kv);
    let before = all(&kv, 1);
    for len in [0, 255, 257] {
        let error = kv.import(GroupId(0), BlockId(1), &BlockBytes::new(vec![1; len])).unwrap_err();
        assert!(matches!(error, Error::BlockLen { expected: 256, found, .. } if found == len), "{error}");
    }
    assert!(all(&kv, 1) == before);
    assert_eq!(kv.block_len(GroupId(0)), 256);
}

#[test]
fn a_part_owns_only_itself_once_it_is_kept() {
    let whole = std::sync::Arc::new(Buffer::own((0..100).collect::<Vec<u8>>()));
    let part = BlockBytes::part(&whole, 10..20);
    let owned = part.clone().owned();
    assert!(owned == part && owned.whole.len() == 10);
    let same = owned.clone().owned();
    assert!(std::sync::Arc::ptr_eq(&same.whole, &owned.whole), "what is alone already is not copied");
}
