//! Distortion and memory per width against theory: `cargo run -p omlx-kv --example turboquant [--release]`.

use candle_core::{Device, Tensor};
use half::f16;
use omlx_kv::turboquant::codebook::{Density, best_step, least_possible, lloyd_max, most_with_levels};
use omlx_kv::{Codec, Turbo, Width};

const VECTORS: usize = 5_000;

/// The mean of squared errors, each relative to its vector's square.
fn distortion(dim: usize, width: Width) -> Result<f64, Box<dyn std::error::Error>> {
    let (_, coding) = Turbo { keys: width, values: width, seed: 1 }.codings(dim);
    let x: Vec<f32> = Tensor::randn(0f32, 1.0, (VECTORS, dim), &Device::Cpu)?.flatten_all()?.to_vec1()?;
    let (mut codes, mut scales) = (vec![0; VECTORS * coding.code_bytes()], vec![f16::ZERO; VECTORS]);
    let mut back = vec![0.0; x.len()];
    coding.encode(&x, &mut codes, &mut scales)?;
    coding.decode(&codes, &scales, &mut back)?;
    let squares = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    let relative = |(x, back): (&[f32], &[f32])| {
        let off: Vec<f32> = x.iter().zip(back).map(|(x, y)| x - y).collect();
        squares(&off) / squares(x)
    };
    Ok(x.chunks(dim).zip(back.chunks(dim)).map(relative).sum::<f64>() / VECTORS as f64)
}

#[expect(clippy::print_stdout, reason = "what an example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "| head | bits | levels | measured D | levels alone, exact | any method at least | levels at most | bytes K+V | against bf16 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for dim in [64, 128, 256] {
        for width in Width::ALL {
            let bits = width.bits();
            let (kind, theory) = match width {
                Width::Two | Width::Three | Width::Four => ("Lloyd-Max", lloyd_max(bits, Density::Sphere(dim)).mse),
                Width::Six | Width::Eight => ("even", best_step(bits).1),
            };
            let turbo = Codec::Turbo(Turbo { keys: width, values: width, seed: 1 });
            let (bytes, plain) = (turbo.pair_bytes(dim), Codec::Plain(candle_core::DType::BF16).pair_bytes(dim));
            println!(
                "| {dim} | {bits} | {kind} | {:.6} | {theory:.6} | {:.6} | {:.6} | {bytes} | {:.2} x |",
                distortion(dim, width)?,
                least_possible(bits),
                most_with_levels(bits),
                plain as f64 / bytes as f64
            );
        }
    }
    Ok(())
}
