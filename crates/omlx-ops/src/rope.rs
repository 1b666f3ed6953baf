//! Rotary position embedding (Su et al., 2021): tables in f32, by position, with the published scalings.
//!
//! Positions are data: a table is made for the positions of a step, so rows anywhere in their sequences share one call. The
//! angle is the f32 product of position and inverse frequency, as the reference implementations compute it.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use crate::dispatch::Target;
use crate::{Error, Result, host, threads};

/// How the frequencies are stretched for contexts longer than the model was first trained on.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum RopeScaling {
    /// Frequencies as trained.
    #[default]
    None,
    /// Every frequency divided by `factor`.
    Linear {
        /// How many times longer the context becomes.
        factor: f32,
    },
    /// Llama 3.1: low frequencies divided, high ones kept, a ramp between.
    Llama3 {
        /// How many times longer the context becomes.
        factor: f32,
        /// Wavelengths above `original_context / low_freq_factor` are stretched in full.
        low_freq_factor: f32,
        /// Wavelengths below `original_context / high_freq_factor` are kept.
        high_freq_factor: f32,
        /// Tokens of context in the first training.
        original_context: usize,
    },
    /// YaRN (Peng et al., 2023).
    Yarn(Yarn),
    /// LongRoPE (Ding et al., 2024): a divisor for each frequency.
    Long {
        /// Half as many as there are rotated dimensions.
        divisors: Arc<[f32]>,
        /// Multiplies cosines and sines.
        amplitude: f32,
    },
}

/// The values of YaRN, named as in config.json.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "field names are those of config.json")]
pub struct Yarn {
    pub factor: f32,
    pub original_context: usize,
    pub beta_fast: f32,
    pub beta_slow: f32,
    /// Multiplies cosines and sines; worked out from the rest where absent.
    pub attention_factor: Option<f32>,
    pub mscale: Option<f32>,
    pub mscale_all_dim: Option<f32>,
    /// Whether the correction range is rounded to whole dimensions.
    pub truncate: bool,
}

impl Yarn {
    fn attention_factor(&self) -> f32 {
        let mscale = |scale: f32| if self.factor <= 1.0 { 1.0 } else { 0.1 * scale * self.factor.ln() + 1.0 };
        match (self.attention_factor, self.mscale, self.mscale_all_dim) {
            (Some(given), _, _) => given,
            (None, Some(m), Some(all)) if m != 0.0 && all != 0.0 => mscale(m) / mscale(all),
            _ => mscale(1.0),
        }
    }

    fn frequencies(&self, dim: usize, base: f32) -> Vec<f32> {
        let (dim64, base64) = (dim as f64, f64::from(base));
        // The dimension that turns `rotations` times over the original context.
        let correction = |rotations: f32| {
            dim64 * (self.original_context as f64 / (f64::from(rotations) * std::f64::consts::TAU)).ln()
                / (2.0 * base64.ln())
        };
        let (mut low, mut high) = (correction(self.beta_fast), correction(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, mut high) = (low.max(0.0), high.min(dim64 - 1.0));
        if high == low {
            high += 0.001; // a ramp of no width would divide by zero
        }
        inverse_frequencies(dim, base)
            .into_iter()
            .enumerate()
            .map(|(i, freq)| {
                let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0) as f32;
                freq / self.factor * ramp + freq * (1.0 - ramp)
            })
            .collect()
    }
}

/// What one kind of layer rotates by.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    /// Rotated dimensions of a head, the first ones; even.
    pub dim: usize,
    /// The base of the frequencies, `rope_theta`.
    pub base: f32,
    /// The context extension.
    pub scaling: RopeScaling,
}

/// Inverse frequencies, ready to be turned into tables for any positions.
#[derive(Clone, Debug)]
pub struct Rope {
    frequencies: Vec<f32>,
    amplitude: f32,
}

/// Cosines and sines for the tokens of one step.
#[derive(Clone, Debug)]
pub struct RopeTable {
    cos: Vec<f32>, // [T, dim / 2]
    sin: Vec<f32>, // [T, dim / 2]
    tokens: usize,
    half: usize,
}

fn inverse_frequencies(dim: usize, base: f32) -> Vec<f32> {
    (0..dim / 2).map(|i| 1.0 / base.powf(2.0 * i as f32 / dim as f32)).collect()
}

impl Rope {
    /// Works out the frequencies.
    ///
    /// # Errors
    /// When a value is out of its range: odd `dim`, base or factor not above zero, an empty Llama 3 band.
    pub fn new(spec: RopeSpec) -> Result<Self> {
        let RopeSpec { dim, base, scaling } = spec;
        let refuse = |what, expected: &str, found: f32| Err(Error::shape("rope", what, expected, found));
        if dim == 0 || dim % 2 != 0 {
            return refuse("dim", "even and above zero", dim as f32);
        }
        if base.is_nan() || base <= 1.0 {
            return refuse("base", "above one", base);
        }
        let factor = match &scaling {
            RopeScaling::None => 1.0,
            RopeScaling::Linear { factor } | RopeScaling::Llama3 { factor, .. } => *factor,
            RopeScaling::Yarn(yarn) => yarn.factor,
            RopeScaling::Long { amplitude, .. } => *amplitude,
        };
        if factor.is_nan() || factor <= 0.0 {
            return refuse("factor", "above zero", factor);
        }
        let plain = inverse_frequencies(dim, base);
        let (frequencies, amplitude) = match scaling {
            RopeScaling::None => (plain, 1.0),
            RopeScaling::Linear { factor } => (plain.into_iter().map(|f| f / factor).collect(), 1.0),
            RopeScaling::Llama3 { factor, low_freq_factor: low, high_freq_factor: high, original_context } => {
                if high <= low {
                    return refuse("high_freq_factor", "above low_freq_factor", high);
                }
                let context = original_context as f32;
                let stretch = |f: f32| llama3(f, factor, (low, high), context);
                (plain.into_iter().map(stretch).collect(), 1.0)
            }
            RopeScaling::Yarn(yarn) => (yarn.frequencies(dim, base), yarn.attention_factor()),
            RopeScaling::Long { divisors, amplitude } => (long(&plain, &divisors)?, amplitude),
        };
        Ok(Self { frequencies, amplitude })
    }

    /// The table for the given positions, one per token.
    pub fn at(&self, positions: &[u32]) -> RopeTable {
        let half = self.frequencies.len();
        let mut cos = Vec::with_capacity(positions.len() * half);
        let mut sin = Vec::with_capacity(positions.len() * half);
        for position in positions {
            for frequency in &self.frequencies {
                // f64 for the functions only: their f32 forms differ between platforms
                let angle = f64::from(*position as f32 * frequency);
                cos.push(angle.cos() as f32 * self.amplitude);
                sin.push(angle.sin() as f32 * self.amplitude);
            }
        }
        RopeTable { cos, sin, tokens: positions.len(), half }
    }
}

fn long(plain: &[f32], divisors: &[f32]) -> Result<Vec<f32>> {
    if plain.len() != divisors.len() {
        return Err(Error::shape("rope", "number of divisors", plain.len(), divisors.len()));
    }
    if let Some(bad) = divisors.iter().find(|d| d.is_nan() || **d <= 0.0) {
        return Err(Error::shape("rope", "divisors", "above zero", bad));
    }
    Ok(plain.iter().zip(divisors).map(|(frequency, divisor)| frequency / divisor).collect())
}

fn llama3(frequency: f32, factor: f32, (low, high): (f32, f32), context: f32) -> f32 {
    let wavelength = std::f32::consts::TAU / frequency;
    if wavelength < context / high {
        frequency
    } else if wavelength > context / low {
        frequency / factor
    } else {
        let smooth = (context / wavelength - low) / (high - low);
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}

/// Rotates the first `2 * half` dimensions of every head, paired as (i, i + half). `x [T, H, D]`, possibly a strided view.
///
/// # Errors
/// When the table was made for another number of tokens or has more dimensions than a head.
pub fn apply_rope(x: &Tensor, table: &RopeTable) -> Result<Tensor> {
    let (tokens, _, dim) = x.dims3()?;
    if tokens != table.tokens {
        return Err(Error::shape("rope", "tokens", table.tokens, tokens));
    }
    if dim < 2 * table.half {
        return Err(Error::shape("rope", "head size at least", 2 * table.half, dim));
    }
    match Target::of(x.device()) {
        Target::Cpu => cpu(x, table),
        Target::Reference => reference(x, table),
    }
}

fn cpu(x: &Tensor, table: &RopeTable) -> Result<Tensor> {
    let dim = x.dim(2)?;
    let rows = host::rows(x, "rope", "x")?;
    let (data, stride, width, half) = (rows.as_slice(), rows.stride(), rows.width, table.half);
    let mut out = vec![0f32; rows.rows * width];
    threads::for_rows(&mut out, width, 8192, |t, row| {
        let (cos, sin) = (&table.cos[t * half..][..half], &table.sin[t * half..][..half]);
        let x = &data[t * stride..][..width];
        for (o, x) in row.chunks_exact_mut(dim).zip(x.chunks_exact(dim)) {
            let ((o1, rest), (x1, x_rest)) = (o.split_at_mut(half), x.split_at(half));
            let ((o2, o3), (x2, x3)) = (rest.split_at_mut(half), x_rest.split_at(half));
            for i in 0..half {
                o1[i] = x1[i] * cos[i] - x2[i] * sin[i];
                o2[i] = x2[i] * cos[i] + x1[i] * sin[i];
            }
            o3.copy_from_slice(x3);
        }
    });
    host::tensor(out, x.dims())
}

fn reference(x: &Tensor, table: &RopeTable) -> Result<Tensor> {
    let (_, _, dim) = x.dims3()?;
    let half = table.half;
    let of = |v: &[f32], device: &Device| Tensor::from_slice(v, (table.tokens, 1, half), device);
    let (cos, sin) = (of(&table.cos, x.device())?, of(&table.sin, x.device())?);
    let (x1, x2) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
    let o1 = (x1.broadcast_mul(&cos)? - x2.broadcast_mul(&sin)?)?;
    let o2 = (x2.broadcast_mul(&cos)? + x1.broadcast_mul(&sin)?)?;
    let rest = x.narrow(2, 2 * half, dim - 2 * half)?;
    Ok(if dim > 2 * half { Tensor::cat(&[&o1, &o2, &rest], 2)? } else { Tensor::cat(&[&o1, &o2], 2)? })
}

#[cfg(test)]
mod tests;
