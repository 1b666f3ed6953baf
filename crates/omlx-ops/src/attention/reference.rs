//! The obvious version: per row, gather its keys and values, a full score matrix, a mask made of positions.

use candle_core::{D, DType, Tensor};

use super::{Attend, CodedPool, Pool, RowView};
use crate::Result;
use crate::coded::read_codes;

pub(super) fn attention(q: &Tensor, pool: Pool<'_>, rows: &RowView, how: &Attend) -> Result<Tensor> {
    let read = |slots: &[u32]| {
        let slots = Tensor::new(slots, q.device())?;
        let of = |pool: &Tensor| -> Result<Tensor> { Ok(pool.index_select(&slots, 0)?.to_dtype(DType::F32)?) };
        Ok([of(pool.k)?, of(pool.v)?])
    };
    all_rows(q, pool.block, read, rows, how)
}

/// Decodes, then attends.
pub(super) fn coded(q: &Tensor, pool: CodedPool<'_>, rows: &RowView, how: &Attend) -> Result<Tensor> {
    all_rows(q, pool.block, |slots| Ok([read_codes(pool.k, slots)?, read_codes(pool.v, slots)?]), rows, how)
}

/// `read` answers the keys and values at some slots, `[L, Hkv, D]` f32 each.
fn all_rows(
    q: &Tensor,
    block: usize,
    read: impl Fn(&[u32]) -> Result<[Tensor; 2]>,
    rows: &RowView,
    how: &Attend,
) -> Result<Tensor> {
    let mut out = Vec::with_capacity(rows.rows());
    for row in 0..rows.rows() {
        let (from, to) = (rows.starts[row] as usize, rows.starts[row + 1] as usize);
        if to == from {
            continue;
        }
        let start = rows.start_position(row);
        // all that anybody sees; what was forgotten has no slot
        let sees = |key: &usize| (start..start + to - from).any(|at| how.reach.sees(at, *key));
        let keys: Vec<usize> = (0..rows.lens[row] as usize).filter(sees).collect();
        let slots: Vec<u32> = keys.iter().map(|pos| rows.slot(row, *pos, block) as u32).collect();
        out.push(one_row(&q.narrow(0, from, to - from)?, &read(&slots)?, (start, &keys), how)?);
    }
    Ok(Tensor::cat(&out, 0)?)
}

/// The tokens from position `start` on over the keys at positions `keys`.
fn one_row(q: &Tensor, kv: &[Tensor; 2], (start, keys): (usize, &[usize]), how: &Attend) -> Result<Tensor> {
    let (tokens, heads, dim) = q.dims3()?;
    let (device, context) = (q.device(), keys.len());
    // [Hq, L, D], every key head repeated for its group of query heads
    let repeat = |x: &Tensor| -> Result<Tensor> {
        let x = x.transpose(0, 1)?;
        let (kv_heads, _, _) = x.dims3()?;
        let x = x.unsqueeze(1)?.expand((kv_heads, heads / kv_heads, context, dim))?;
        Ok(x.reshape((heads, context, dim))?.contiguous()?)
    };
    let (k, v) = (repeat(&kv[0])?, repeat(&kv[1])?);
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
