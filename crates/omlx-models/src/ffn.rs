//! Feed-forward: gate, up, activation, down.

use candle_core::Tensor;
use omlx_kv::Result;
use omlx_ops::{Act, Linear, gated};

use crate::spec::FfnSpec;
use crate::weights::{Matrix, Part, Weights};

/// Feed-forward of one layer.
#[derive(Debug)]
pub(crate) struct Ffn {
    /// Gate and up in one matrix: one pass over x.
    gate_up: Linear,
    down: Linear,
    act: Act,
}

impl Ffn {
    pub(crate) fn new(layer: usize, spec: &FfnSpec, hidden: usize, weights: &mut Weights) -> crate::Result<Self> {
        let FfnSpec::Dense { width, act, bias } = *spec;
        let wide = Matrix { rows: width, cols: hidden, bias, heads: 1 };
        let down = Matrix { rows: hidden, cols: width, bias, heads: 1 };
        Ok(Self {
            gate_up: weights.stacked(layer, Part::GateUp, &[(Part::Gate, wide), (Part::Up, wide)])?,
            down: weights.linear(Part::Down.of(layer), down)?,
            act,
        })
    }

    /// x `[T, hidden]`.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let gate_up = self.gate_up.forward(x)?; // [T, 2 W]
        Ok(self.down.forward(&gated(self.act, &gate_up)?)?)
    }
}
