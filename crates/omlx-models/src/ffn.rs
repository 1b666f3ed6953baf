//! Feed-forward: gate, up, activation, down; for every token, or for those that a router sends there.

use candle_core::Tensor;
use omlx_kv::Result;
use omlx_ops::{Act, Experts, Linear, gated};

use crate::moe::Moe;
use crate::spec::FfnSpec;
use crate::weights::{Matrix, Part, Weights};

/// Feed-forward of one layer.
#[derive(Debug)]
pub(crate) enum Ffn {
    Dense(Gated),
    Moe(Box<Moe>),
}

impl Ffn {
    pub(crate) fn new(layer: usize, spec: &FfnSpec, hidden: usize, weights: &mut Weights) -> crate::Result<Self> {
        match *spec {
            FfnSpec::Dense { width, act, bias } => {
                Gated::new(layer, DENSE, Size { hidden, width, bias }, act, weights).map(Self::Dense)
            }
            FfnSpec::Moe(moe) => Moe::new(layer, moe, hidden, weights).map(|moe| Self::Moe(Box::new(moe))),
        }
    }

    /// x `[T, hidden]`.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense(dense) => dense.forward(x),
            Self::Moe(moe) => moe.forward(x),
        }
    }

    pub(crate) fn experts(&self) -> Option<&Experts> {
        match self {
            Self::Dense(_) => None,
            Self::Moe(moe) => Some(moe.experts()),
        }
    }
}

/// What the matrices of a feed-forward are called: gate and up together, gate, up, down.
pub(crate) type Names = [Part; 4];
const DENSE: Names = [Part::GateUp, Part::Gate, Part::Up, Part::Down];

/// The size of a feed-forward.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) hidden: usize,
    pub(crate) width: usize,
    pub(crate) bias: bool,
}

impl Size {
    /// What gate and up are, each.
    pub(crate) fn wide(self) -> Matrix {
        Matrix { rows: self.width, cols: self.hidden, bias: self.bias, heads: 1 }
    }

    pub(crate) fn down(self) -> Matrix {
        Matrix { rows: self.hidden, cols: self.width, bias: self.bias, heads: 1 }
    }
}

/// A feed-forward that every token goes through.
#[derive(Debug)]
pub(crate) struct Gated {
    /// Gate and up in one matrix: one pass over x.
    gate_up: Linear,
    down: Linear,
    act: Act,
}

impl Gated {
    pub(crate) fn new(
        layer: usize,
        [whole, gate, up, down]: Names,
        size: Size,
        act: Act,
        weights: &mut Weights,
    ) -> crate::Result<Self> {
        let parts = [(gate.of(layer), size.wide()), (up.of(layer), size.wide())];
        let gate_up = weights.stacked(whole.of(layer), &parts)?;
        Ok(Self { gate_up, down: weights.linear(down.of(layer), size.down())?, act })
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let gate_up = self.gate_up.forward(x)?; // [T, 2 W]
        Ok(self.down.forward(&gated(self.act, &gate_up)?)?)
    }
}
