//! The obvious version: token by token, expert by expert.

use candle_core::Tensor;

use super::{Experts, Routes};
use crate::{Result, act};

pub(super) fn forward(experts: &Experts, x: &Tensor, routes: &Routes) -> Result<Tensor> {
    let mut out = Vec::new();
    for token in 0..x.dim(0)? {
        let x = x.narrow(0, token, 1)?; // [1, K]
        let mut sum = x.zeros_like()?;
        for choice in token * routes.top..(token + 1) * routes.top {
            let expert = &experts.all[routes.experts[choice] as usize];
            let gate_up = expert.gate_up.forward_plain(&x)?; // [1, 2 W]
            let hidden = act::reference(experts.act, &gate_up, gate_up.dim(1)? / 2)?; // [1, W]
            let y = expert.down.forward_plain(&hidden)?; // [1, K]
            sum = (sum + (y * f64::from(routes.weights[choice]))?)?;
        }
        out.push(sum);
    }
    match out.as_slice() {
        [] => Ok(x.zeros_like()?),
        rows => Ok(Tensor::cat(rows, 0)?),
    }
}
