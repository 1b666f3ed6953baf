//! Linear layers by format and number of rows. One row: criterion's bytes/s are weights read per second, to be held against the
//! machine's memory bandwidth. Many rows: its elements/s are FLOP/s, to be held against the FMA peak.

use candle_core::{DType, Device, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use omlx_ops::{Linear, Packed, PackedParts};

const N: usize = 4096;
const K: usize = 2048;

fn dense(dtype: DType) -> Linear {
    let w = Tensor::randn(0f32, 1.0, (N, K), &Device::Cpu).and_then(|w| w.to_dtype(dtype)).expect("on the CPU");
    Linear::dense(w, None).expect("a matrix of floats")
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

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = linear }
criterion_main!(benches);
