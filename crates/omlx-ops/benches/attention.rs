//! Attention over block tables: decode (criterion's bytes/s are keys and values read) and prefill (elements/s are FLOP/s).

use candle_core::{DType, Device, Tensor};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use omlx_ops::{Attend, Pool, Reach, RowView, attention};

const BLOCK: usize = 64;
const HEADS: usize = 9;
const KV_HEADS: usize = 3;
const DIM: usize = 64;

fn view(tokens: usize, context: usize) -> RowView {
    let blocks = context.div_ceil(BLOCK) as u32;
    RowView {
        starts: vec![0, tokens as u32],
        lens: vec![context as u32],
        kept: 0,
        forgotten: vec![0],
        tables: (0..blocks).rev().collect(),
        width: blocks as usize,
        slots: vec![0; tokens],
    }
}

fn attend(c: &mut Criterion) {
    let how = Attend { scale: 0.125, reach: Reach::All, softcap: None, sinks: None };
    for dtype in [DType::F32, DType::F16] {
        for (name, tokens, context) in
            [("decode_4096", 1, 4096), ("prefill_512", 512, 512), ("prefill_512_at_2048", 512, 2048)]
        {
            let pool = Tensor::randn(0f32, 1.0, (4096, KV_HEADS, DIM), &Device::Cpu)
                .and_then(|t| t.to_dtype(dtype))
                .expect("on the CPU");
            let q = Tensor::randn(0f32, 1.0, (tokens, HEADS, DIM), &Device::Cpu).expect("on the CPU");
            let view = view(tokens, context);
            let mut group = c.benchmark_group(format!("attention_{}", dtype.as_str()));
            group.throughput(if tokens == 1 {
                Throughput::Bytes((2 * context * KV_HEADS * DIM * dtype.size_in_bytes()) as u64)
            } else {
                let pairs = tokens * (2 * context - tokens) / 2;
                Throughput::Elements((4 * pairs * HEADS * DIM) as u64)
            });
            let pool = Pool { k: &pool, v: &pool, block: BLOCK };
            group.bench_function(name, |b| b.iter(|| attention(&q, pool, &view, &how)));
            group.finish();
        }
    }
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = attend }
criterion_main!(benches);
