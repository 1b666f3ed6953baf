//! The obvious version: widen the weight to f32 and multiply.

use candle_core::{DType, Device, Tensor};

use super::{Linear, Weight};
use crate::Result;

pub(super) fn forward(linear: &Linear, x: &Tensor) -> Result<Tensor> {
    let w = dequantize(linear)?.to_device(x.device())?;
    let y = x.contiguous()?.matmul(&w.t()?)?;
    Ok(match &linear.bias {
        Some(bias) => y.broadcast_add(bias)?,
        None => y,
    })
}

pub(super) fn gather(linear: &Linear, ids: &[u32]) -> Result<Tensor> {
    let w = dequantize(linear)?;
    Ok(w.index_select(&Tensor::new(ids, w.device())?, 0)?)
}

pub(super) fn dequantize(linear: &Linear) -> Result<Tensor> {
    let of = |part: &Weight| match part {
        Weight::Dense(w) => w.to_dtype(DType::F32),
        Weight::Packed(w) => {
            let mut out = vec![0f32; w.rows() * w.cols()];
            for (row, out) in out.chunks_exact_mut(w.cols().max(1)).enumerate() {
                w.row_into(row, out);
            }
            Tensor::from_vec(out, (w.rows(), w.cols()), &Device::Cpu)
        }
    };
    let parts = linear.parts.iter().map(of).collect::<candle_core::Result<Vec<_>>>()?;
    Ok(Tensor::cat(&parts, 0)?)
}
