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
    let of = |part: &Weight| {
        let (rows, cols) = part.dims();
        let mut out = vec![0f32; rows * cols];
        for (row, out) in out.chunks_exact_mut(cols.max(1)).enumerate() {
            match part {
                Weight::Dense(w) => w.row_into(row, out),
                Weight::Packed(w) => w.row_into(row, out),
                Weight::Elsewhere(w) => return w.to_dtype(DType::F32),
            }
        }
        Tensor::from_vec(out, (rows, cols), &Device::Cpu)
    };
    let parts = linear.parts.iter().map(of).collect::<candle_core::Result<Vec<_>>>()?;
    Ok(Tensor::cat(&parts, 0)?)
}
