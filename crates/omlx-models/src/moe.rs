//! Routed feed-forward: a router in f32, experts as they are stored, and what every token goes through besides.

use candle_core::Tensor;
use omlx_kv::Result;
use omlx_ops::{Expert, Experts, Linear, Router, route};

use crate::Error;
use crate::ffn::{Gated, Names, Size};
use crate::spec::MoeSpec;
use crate::weights::{Matrix, Part, Weights};

const SHARED: Names = [Part::SharedGateUp, Part::SharedGate, Part::SharedUp, Part::SharedDown];

/// A routed feed-forward of one layer.
#[derive(Debug)]
pub(crate) struct Moe {
    /// f32, however it is stored: a rounded logit may choose another expert.
    router: Linear,
    bias: Option<Vec<f32>>,
    how: Router,
    experts: Experts,
    shared: Option<Gated>,
}

impl Moe {
    pub(crate) fn new(layer: usize, spec: MoeSpec, hidden: usize, weights: &mut Weights) -> crate::Result<Self> {
        let MoeSpec { experts, width, act, router: how, bias, alternate, shared } = spec;
        let matrix = Matrix { rows: experts, cols: hidden, bias, heads: 1 };
        let router = weights.wide(Part::Router.of(layer), matrix)?;
        let choice = how.bias.then(|| weights.vector(Part::RouterBias.of(layer), "bias", experts)).transpose()?;
        let size = Size { hidden, width, bias };
        let expert = |index| -> crate::Result<Expert> {
            let at = |part: Part| part.of(layer).expert(index, experts);
            let parts = [(at(Part::ExpertGate), size.wide()), (at(Part::ExpertUp), size.wide())];
            let gate_up = match alternate {
                true => weights.alternating(at(Part::ExpertGateUp), size.wide())?,
                false => weights.stacked(at(Part::ExpertGateUp), &parts)?,
            };
            Ok(Expert { gate_up, down: weights.linear(at(Part::ExpertDown), size.down())? })
        };
        let all = (0..experts).map(expert).collect::<crate::Result<_>>()?;
        let experts = Experts::new(all, act).map_err(|source| Error::device(&format!("layer {layer}"), source))?;
        let shared = shared.map(|shared| {
            let size = Size { hidden, width: shared.width, bias: false };
            Gated::new(layer, SHARED, size, shared.act, weights)
        });
        Ok(Self { router, bias: choice, how, experts, shared: shared.transpose()? })
    }

    /// x `[T, hidden]`.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let logits = self.router.forward(x)?; // [T, E]
        let routes = route(&logits, self.bias.as_deref(), &self.how)?;
        let y = self.experts.forward(x, &routes)?; // [T, hidden]
        match &self.shared {
            Some(shared) => Ok((y + shared.forward(x)?)?),
            None => Ok(y),
        }
    }

    pub(crate) fn experts(&self) -> &Experts {
        &self.experts
    }
}
