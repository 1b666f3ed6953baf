//! Gated activations: the first half of a fused projection is activated and multiplied into the second.

use candle_core::{D, Tensor};

use crate::dispatch::Target;
use crate::simd::exp::exp;
use crate::simd::{Isa, Simd, for_isa};
use crate::{Error, Result, host, threads};

/// The non-linearity of a gated feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// `x * sigmoid(x)`.
    Silu,
    /// GELU with the tanh approximation (Hendrycks and Gimpel, 2016).
    GeluTanh,
    /// SiLU cut off at `limit`, times the second half held within ± `limit`.
    SiluWithin {
        /// Above zero.
        limit: f32,
    },
    /// gpt-oss: `x * sigmoid(alpha * x)` of what is cut off at `limit`, times the second half held within ± `limit`, plus 1.
    SwishWithin {
        /// Steepness of the sigmoid.
        alpha: f32,
        /// Above zero.
        limit: f32,
    },
}

impl Act {
    /// All are `x * sigmoid(z)`, and this is that.
    #[inline(always)]
    fn apply(self, x: f32) -> f32 {
        let z = match self {
            Self::Silu | Self::SiluWithin { .. } => x,
            Self::SwishWithin { alpha, .. } => alpha * x,
            // (1 + tanh(y)) / 2 is sigmoid(2 y); 2 sqrt(2 / π) = 1.5957691
            Self::GeluTanh => 1.595_769 * (x + 0.044_715 * x * x * x),
        };
        x / (1.0 + exp(-z))
    }
}

/// `act(gate) * up` for `gate_up [T, 2 * W]`, gate first. Returns `[T, W]`.
///
/// # Errors
/// When the last dimension is odd or the tensor is not f32.
pub fn gated(act: Act, gate_up: &Tensor) -> Result<Tensor> {
    let (tokens, both) = gate_up.dims2()?;
    if both % 2 != 0 {
        return Err(Error::shape("gated", "gate_up's last dimension", "even", both));
    }
    match Target::of(gate_up.device()) {
        Target::Cpu => cpu(act, gate_up, tokens, both / 2),
        Target::Reference => reference(act, gate_up, both / 2),
    }
}

fn cpu(act: Act, gate_up: &Tensor, tokens: usize, width: usize) -> Result<Tensor> {
    let x = host::rows(gate_up, "gated", "gate_up")?;
    let (data, stride) = (x.as_slice(), x.stride());
    let mut out = vec![0f32; tokens * width];
    let isa = Isa::best();
    threads::for_rows(&mut out, width, 4096, |t, row| {
        let (gate, up) = data[t * stride..][..2 * width].split_at(width);
        match act {
            Act::Silu => for_isa!(isa, silu::<>(gate: &[f32], up: &[f32], row: &mut [f32])),
            Act::GeluTanh => for_isa!(isa, gelu_tanh::<>(gate: &[f32], up: &[f32], row: &mut [f32])),
            Act::SiluWithin { limit } => {
                for_isa!(isa, silu_within::<>(gate: &[f32], up: &[f32], row: &mut [f32], limit: f32));
            }
            Act::SwishWithin { limit, .. } => {
                for_isa!(isa, swish_within::<>(gate: &[f32], up: &[f32], row: &mut [f32], limit: f32, act: Act));
            }
        }
    });
    host::tensor(out, (tokens, width))
}

macro_rules! plain_loop {
    ($name:ident, $act:expr) => {
        /// A loop that the compiler turns into vectors of the set.
        #[inline(always)]
        unsafe fn $name<S: Simd>(gate: &[f32], up: &[f32], out: &mut [f32]) {
            for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                *out = $act.apply(*gate) * up;
            }
        }
    };
}
plain_loop!(silu, Act::Silu);
plain_loop!(gelu_tanh, Act::GeluTanh);

/// Not `f32::min`: what is no number must show.
#[inline(always)]
unsafe fn swish_within<S: Simd>(gate: &[f32], up: &[f32], out: &mut [f32], limit: f32, act: Act) {
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        let gate = if *gate > limit { limit } else { *gate };
        *out = act.apply(gate) * (up.clamp(-limit, limit) + 1.0);
    }
}

/// The same.
#[inline(always)]
unsafe fn silu_within<S: Simd>(gate: &[f32], up: &[f32], out: &mut [f32], limit: f32) {
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        let gate = Act::Silu.apply(*gate);
        *out = if gate > limit { limit } else { gate } * up.clamp(-limit, limit);
    }
}

pub(crate) fn reference(act: Act, gate_up: &Tensor, width: usize) -> Result<Tensor> {
    let gate = gate_up.narrow(D::Minus1, 0, width)?.contiguous()?;
    let up = gate_up.narrow(D::Minus1, width, width)?.contiguous()?;
    Ok(match act {
        Act::Silu => (gate.silu()? * up)?,
        Act::GeluTanh => (gate.gelu()? * up)?,
        Act::SwishWithin { alpha, limit } => {
            let gate = gate.minimum(limit)?;
            let sigmoid = ((gate.affine(-f64::from(alpha), 0.0)?.exp()? + 1.0)?).recip()?;
            ((gate * sigmoid)? * (up.clamp(-limit, limit)? + 1.0)?)?
        }
        Act::SiluWithin { limit } => (gate.silu()?.minimum(limit)? * up.clamp(-limit, limit)?)?,
    })
}

#[cfg(test)]
mod tests;
