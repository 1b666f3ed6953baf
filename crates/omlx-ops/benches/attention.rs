//! Attention over block tables: decode (criterion's bytes/s are keys and values read) and prefill (elements/s are FLOP/s).
//!
//! `THREADS=1` measures one core, which a busy machine disturbs less.

mod rows;

use candle_core::{DType, Device, Tensor};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use omlx_ops::{Attend, Pool, Reach, attention, set_threads};

use self::rows::{BLOCK, view};

/// Heads of a model's queries, of its keys, and their size; how far back it looks.
struct Model {
    name: &'static str,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    reach: Reach,
}

const MODELS: [Model; 3] = [
    Model { name: "smollm2_135m", heads: 9, kv_heads: 3, dim: 64, reach: Reach::All },
    Model { name: "gemma3_270m", heads: 4, kv_heads: 1, dim: 256, reach: Reach::Last(512) },
    Model { name: "qwen25_05b", heads: 14, kv_heads: 2, dim: 64, reach: Reach::All },
];

/// Rows, new tokens of each, and context of each.
const STEPS: [(&str, usize, usize, usize); 6] = [
    ("decode_1_at_512", 1, 1, 512),
    ("decode_1_at_4096", 1, 1, 4096),
    ("decode_8_at_512", 8, 1, 512),
    ("decode_8_at_4096", 8, 1, 4096),
    ("prefill_256_at_512", 1, 256, 512),
    ("prefill_256_at_3584", 1, 256, 3584),
];

fn attend(c: &mut Criterion) {
    if let Some(threads) = std::env::var("THREADS").ok().and_then(|threads| threads.parse().ok()) {
        set_threads(threads);
    }
    for (model, dtype) in MODELS.iter().flat_map(|model| [(model, DType::F32), (model, DType::F16)]) {
        let &Model { name, heads, kv_heads, dim, reach } = model;
        let how = Attend { scale: 1.0 / (dim as f32).sqrt(), reach, softcap: None, sinks: None };
        for (step, rows, tokens, context) in STEPS {
            let slots = rows * context.next_multiple_of(BLOCK);
            let pool = || {
                Tensor::randn(0f32, 1.0, (slots, kv_heads, dim), &Device::Cpu)
                    .and_then(|t| t.to_dtype(dtype))
                    .expect("on the CPU")
            };
            let (k, v) = (pool(), pool());
            let q = Tensor::randn(0f32, 1.0, (rows * tokens, heads, dim), &Device::Cpu).expect("on the CPU");
            let view = view(rows, tokens, context);
            let pairs: usize = (context - tokens..context).map(|pos| pos + 1 - reach.first_visible(pos)).sum();
            let mut group = c.benchmark_group(format!("{name}_{}", dtype.as_str()));
            group.throughput(if tokens == 1 {
                Throughput::Bytes((2 * rows * pairs * kv_heads * dim * dtype.size_in_bytes()) as u64)
            } else {
                Throughput::Elements((4 * pairs * heads * dim) as u64)
            });
            let pool = Pool { k: &k, v: &v, block: BLOCK };
            group.bench_function(step, |b| b.iter(|| attention(&q, pool, &view, &how)));
            group.finish();
        }
    }
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = attend }
criterion_main!(benches);
