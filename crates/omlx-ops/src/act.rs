//! Gated activations: the first half of a fused projection is activated and multiplied into the second.

use candle_core::{D, Tensor};

use crate::dispatch::Target;
use crate::{Error, Result, host, threads};

/// The non-linearity of a gated feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// `x * sigmoid(x)`.
    Silu,
    /// GELU with the tanh approximation (Hendrycks and Gimpel, 2016).
    GeluTanh,
}

impl Act {
    fn apply(self, x: f32) -> f32 {
        match self {
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::GeluTanh => {
                const SQRT_2_OVER_PI: f32 = 0.797_884_6;
                let inner = SQRT_2_OVER_PI * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
        }
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
    threads::for_rows(&mut out, width, 4096, |t, row| {
        let (gate, up) = data[t * stride..][..2 * width].split_at(width);
        for ((o, g), u) in row.iter_mut().zip(gate).zip(up) {
            *o = act.apply(*g) * u;
        }
    });
    host::tensor(out, (tokens, width))
}

fn reference(act: Act, gate_up: &Tensor, width: usize) -> Result<Tensor> {
    let gate = gate_up.narrow(D::Minus1, 0, width)?.contiguous()?;
    let up = gate_up.narrow(D::Minus1, width, width)?.contiguous()?;
    let gate = match act {
        Act::Silu => gate.silu()?,
        Act::GeluTanh => gate.gelu()?,
    };
    Ok((gate * up)?)
}

#[cfg(test)]
mod tests;
