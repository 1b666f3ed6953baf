//! Codes: finding them, writing them, and attention over them beside attention over bf16.
//!
//! Attention goes from layer to layer, as a model does, so that pools come from memory and not from a cache. Its elements/s are keys
//! and values passed, whatever they are stored as. `THREADS=1` measures one core, which a busy machine disturbs less.

mod rows;

use candle_core::{DType, Device, Tensor};
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use half::f16;
use omlx_ops::{
    Attend, Codebook, Coded, CodedPool, Coding, Part, Pool, Reach, Rotation, attention, attention_coded, set_threads,
    write_codes,
};

use self::rows::{BLOCK, view};

const LAYERS: usize = 12;
const LEVELS: [f32; 8] = [0.128395, 0.388048, 0.656759, 0.942340, 1.256231, 1.618046, 2.069017, 2.732_59];

fn levels() -> Vec<f32> {
    LEVELS.iter().rev().map(|x| -x).chain(LEVELS).collect()
}

/// 16 levels, or 8 of them: for the time it takes, which ones does not matter.
fn coding(dim: usize, bits: usize, part: Part) -> Coding {
    let book = match bits {
        3 => Codebook::table(&levels().into_iter().step_by(2).collect::<Vec<_>>()),
        4 => Codebook::table(&levels()),
        bits => Codebook::grid(bits, 0.03),
    };
    Coding::new(Rotation::new(dim, 0, part), book)
}

fn threads() {
    if let Some(threads) = std::env::var("THREADS").ok().and_then(|threads| threads.parse().ok()) {
        set_threads(threads);
    }
}

/// What is usually written down: the level with the least distance.
fn arg_min(levels: &[f32], y: &[f32], codes: &mut [u8]) {
    for (y, code) in y.iter().zip(codes) {
        let mut best = (f32::INFINITY, 0);
        for (i, level) in levels.iter().enumerate() {
            let off = (y - level).abs();
            if off < best.0 {
                best = (off, i);
            }
        }
        *code = best.1 as u8;
    }
}

fn find(c: &mut Criterion) {
    threads();
    let y: Vec<f32> = numbers(1 << 16);
    let mut codes = vec![0; y.len()];
    let (book, levels) = (Codebook::table(&levels()), levels());
    let mut group = c.benchmark_group("codes_of_4_bits");
    group.throughput(Throughput::Elements(y.len() as u64));
    group.bench_function("by_comparison", |b| b.iter(|| book.codes(&y, &mut codes)));
    group.bench_function("arg_min", |b| b.iter(|| arg_min(std::hint::black_box(&levels), &y, &mut codes)));
    group.finish();
}

fn encode(c: &mut Criterion) {
    for (dim, bits) in [(64, 4), (128, 4), (128, 3), (128, 8), (96, 4)] {
        let coding = coding(dim, bits, Part::Keys);
        let x = numbers(dim * 512);
        let (mut codes, mut scales) = (vec![0; 512 * coding.code_bytes()], vec![f16::ZERO; 512]);
        let mut group = c.benchmark_group("encode");
        group.throughput(Throughput::Elements(x.len() as u64));
        group.bench_function(format!("{dim}_{bits}"), |b| b.iter(|| coding.encode(&x, &mut codes, &mut scales)));
        group.finish();
    }
}

fn numbers(count: usize) -> Vec<f32> {
    let t = Tensor::randn(0f32, 1.0, count, &Device::Cpu).expect("on the CPU");
    t.to_vec1().expect("on the CPU")
}

struct Model {
    name: &'static str,
    heads: usize,
    kv_heads: usize,
    dim: usize,
}

struct Codes(Tensor, Tensor, Coding);

impl Codes {
    fn new(x: &Tensor, coding: Coding) -> Self {
        let (slots, heads, _) = x.dims3().expect("three");
        let codes = Tensor::zeros((slots, heads, coding.code_bytes()), DType::U8, &Device::Cpu).expect("on the CPU");
        let scales = Tensor::zeros((slots, heads), DType::F16, &Device::Cpu).expect("on the CPU");
        let new = Self(codes, scales, coding);
        write_codes(new.pool(), x, &(0..slots as u32).collect::<Vec<_>>()).expect("they fit");
        new
    }

    fn pool(&self) -> Coded<'_> {
        Coded { codes: &self.0, scales: &self.1, coding: &self.2 }
    }
}

fn attend(c: &mut Criterion) {
    let models = [
        Model { name: "qwen25_05b", heads: 14, kv_heads: 2, dim: 64 },
        Model { name: "smollm2_135m", heads: 9, kv_heads: 3, dim: 64 },
        Model { name: "qwen25_15b", heads: 12, kv_heads: 2, dim: 128 },
        Model { name: "mha_128", heads: 4, kv_heads: 4, dim: 128 },
    ];
    for model in models {
        for (step, tokens, context) in
            [("decode_at_1k", 1, 1024), ("decode_at_8k", 1, 8192), ("prefill_256_at_2k", 256, 2048)]
        {
            let mut group = c.benchmark_group(format!("{}_{step}", model.name));
            group.throughput(Throughput::Elements((context * model.kv_heads) as u64));
            one(&mut group, &model, tokens, context);
            group.finish();
        }
    }
}

fn one(group: &mut BenchmarkGroup<'_, WallTime>, model: &Model, tokens: usize, context: usize) {
    let &Model { heads, kv_heads, dim, .. } = model;
    let how = Attend { scale: 1.0 / (dim as f32).sqrt(), reach: Reach::All, softcap: None, sinks: None };
    let view = view(1, tokens, context);
    let q = Tensor::randn(0f32, 1.0, (tokens, heads, dim), &Device::Cpu).expect("on the CPU");
    let side = || Tensor::randn(0f32, 1.0, (context, kv_heads, dim), &Device::Cpu).expect("on the CPU");
    let pools: Vec<(Tensor, Tensor)> = (0..LAYERS).map(|_| (side(), side())).collect();
    let bf16 = |t: &Tensor| t.to_dtype(DType::BF16).expect("on the CPU");
    let plain: Vec<_> = pools.iter().map(|(k, v)| (bf16(k), bf16(v))).collect();
    let mut layer = 0;
    group.bench_function("bf16", |b| {
        b.iter(|| {
            layer = (layer + 1) % LAYERS;
            attention(&q, Pool { k: &plain[layer].0, v: &plain[layer].1, block: BLOCK }, &view, &how)
        });
    });
    for (k_bits, v_bits) in [(4, 4), (4, 3), (8, 8)] {
        let coded: Vec<_> = pools
            .iter()
            .map(|(k, v)| {
                (Codes::new(k, coding(dim, k_bits, Part::Keys)), Codes::new(v, coding(dim, v_bits, Part::Values)))
            })
            .collect();
        group.bench_function(format!("k{k_bits}v{v_bits}"), |b| {
            b.iter(|| {
                layer = (layer + 1) % LAYERS;
                let (k, v) = &coded[layer];
                attention_coded(&q, CodedPool { k: k.pool(), v: v.pool(), block: BLOCK }, &view, &how)
            });
        });
    }
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = find, encode, attend }
criterion_main!(benches);
