//! The obvious version: per row, gather its keys and values, a full score matrix, a mask made of positions.

use candle_core::{D, DType, Tensor};

use super::{Attend, Pool, RowView};
use crate::Result;

pub(super) fn attention(q: &Tensor, pool: Pool<'_>, rows: &RowView, how: &Attend) -> Result<Tensor> {
    let mut out = Vec::with_capacity(rows.rows());
    for row in 0..rows.rows() {
        let (from, to) = (rows.starts[row] as usize, rows.starts[row + 1] as usize);
        if to > from {
            out.push(one_row(&q.narrow(0, from, to - from)?, pool, rows, row, how)?);
        }
    }
    Ok(Tensor::cat(&out, 0)?)
}

fn one_row(q: &Tensor, pool: Pool<'_>, rows: &RowView, row: usize, how: &Attend) -> Result<Tensor> {
    let (tokens, heads, dim) = q.dims3()?;
    let device = q.device();
    let start = rows.start_position(row);
    // all that anybody sees; what was forgotten has no slot
    let sees = |key: usize| (start..start + tokens).any(|at| how.reach.sees(at, key));
    let keys: Vec<usize> = (0..rows.lens[row] as usize).filter(|key| sees(*key)).collect();
    let slots: Vec<u32> = keys.iter().map(|pos| rows.slot(row, *pos, pool.block) as u32).collect();
    let context = slots.len();
    let slots = Tensor::new(slots, device)?;
    let group = heads / pool.k.dim(1)?;
    // [Hq, L, D], every key head repeated for its group of query heads
    let gather = |pool: &Tensor| -> Result<Tensor> {
        let x = pool.index_select(&slots, 0)?.to_dtype(DType::F32)?.transpose(0, 1)?;
        let (kv_heads, _, _) = x.dims3()?;
        let x = x.unsqueeze(1)?.expand((kv_heads, group, context, dim))?;
        Ok(x.reshape((heads, context, dim))?.contiguous()?)
    };
    let (k, v) = (gather(pool.k)?, gather(pool.v)?);
    let q = q.transpose(0, 1)?.contiguous()?; // [Hq, T, D]
    let mut scores = (q.matmul(&k.transpose(1, 2)?)? * f64::from(how.scale))?; // [Hq, T, L]
    if let Some(cap) = how.softcap {
        scores = ((scores / f64::from(cap))?.tanh()? * f64::from(cap))?;
    }
    let mask: Vec<f32> = (start..start + tokens)
        .flat_map(|at| keys.iter().map(move |key| if how.reach.sees(at, *key) { 0.0 } else { f32::NEG_INFINITY }))
        .collect();
    scores = scores.broadcast_add(&Tensor::from_vec(mask, (1, tokens, context), device)?)?;
    if let Some(sinks) = &how.sinks {
        let sinks = sinks.reshape((heads, 1, 1))?.expand((heads, tokens, 1))?;
        scores = Tensor::cat(&[&scores, &sinks], 2)?;
    }
    let scores = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    let weights = scores.broadcast_div(&scores.sum_keepdim(D::Minus1)?)?;
    let out = weights.narrow(2, 0, context)?.contiguous()?.matmul(&v)?; // [Hq, T, D]
    Ok(out.transpose(0, 1)?.contiguous()?)
}
