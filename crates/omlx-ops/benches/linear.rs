//! Linear layers by format and number of rows. One row: criterion's bytes/s are weights read per second, to be held against the
//! machine's memory bandwidth. Many rows: its elements/s are FLOP/s, to be held against the FMA peak.

use candle_core::{DType, Device, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use omlx_ops::{Linear, Packed, PackedParts};

const N: usize = 4096;
const K: usize = 2048;

fn matrix(shape: (usize, usize), dtype: DType) -> Tensor {
    Tensor::randn(0f32, 1.0, shape, &Device::Cpu).and_then(|w| w.to_dtype(dtype)).expect("on the CPU")
}

fn dense(dtype: DType) -> Linear {
    Linear::dense(matrix((N, K), dtype), None).expect("a matrix of floats")
}

fn packed(bits: u32) -> Linear {
    let parts = PackedParts {
        bits,
        group: 32,
        shape: (N, K),
        codes: (0..N * K).map(|i| (i * 31 % 16) as u8).collect(),
        scales: vec![0.01; N * K / 32],
        biases: vec![-0.08; N * K / 32],
    };
    Linear::packed(Packed::new(&parts).expect("sizes fit"), None).expect("no bias")
}

fn linear(c: &mut Criterion) {
    let formats = [
        ("f32", dense(DType::F32)),
        ("bf16", dense(DType::BF16)),
        ("f16", dense(DType::F16)),
        ("packed8", packed(8)),
        ("packed4", packed(4)),
    ];
    for rows in [1usize, 4, 8, 256] {
        let mut group = c.benchmark_group(format!("linear_{rows}_rows"));
        let x = Tensor::randn(0f32, 1.0, (rows, K), &Device::Cpu).expect("on the CPU");
        for (name, linear) in &formats {
            group.throughput(match rows {
                1 => Throughput::Bytes(linear.bytes() as u64),
                _ => Throughput::Elements((2 * rows * N * K) as u64),
            });
            group.bench_with_input(BenchmarkId::from_parameter(name), &x, |b, x| b.iter(|| linear.forward(x)));
        }
        group.finish();
    }
}

/// Plain floats in the shapes of two small models, beside candle's own product. There are as many copies of a weight as the
/// caches do not hold: in decode every weight comes from memory.
fn plain(c: &mut Criterion) {
    const BYTES: usize = 160 << 20;
    for (n, k) in [(576, 576), (1536, 576), (576, 1536), (49152, 576), (4096, 640)] {
        for (name, dtype) in [("f32", DType::F32), ("bf16", DType::BF16), ("f16", DType::F16)] {
            let w = matrix((n, k), dtype);
            let bytes = n * k * dtype.size_in_bytes();
            let copies = BYTES.div_ceil(bytes);
            let of = |_| Linear::dense(w.clone(), None).expect("a matrix of floats");
            let layers: Vec<Linear> = (0..copies).map(of).collect();
            let candles: Vec<Tensor> = (0..copies).map(|_| w.copy().and_then(|w| w.t()).expect("a matrix")).collect();
            let mut group = c.benchmark_group(format!("plain_{n}x{k}_{name}"));
            for rows in [1usize, 2, 4, 8, 16, 64, 512] {
                if rows * n > 64 * 49152 {
                    continue;
                }
                let x = matrix((rows, k), DType::F32);
                group.throughput(match rows {
                    1 => Throughput::Bytes(bytes as u64),
                    _ => Throughput::Elements((2 * rows * n * k) as u64),
                });
                let mut turn = (0..copies).cycle();
                group.bench_with_input(BenchmarkId::new("ours", rows), &x, |b, x| {
                    b.iter(|| layers[turn.next().expect("endless")].forward(x));
                });
                // candle widens both sides of a bf16 product in every call.
                let x = x.to_dtype(dtype).expect("floats");
                group.bench_with_input(BenchmarkId::new("candle", rows), &x, |b, x| {
                    b.iter(|| x.matmul(&candles[turn.next().expect("endless")]));
                });
            }
            group.finish();
        }
    }
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = linear, plain }
criterion_main!(benches);
