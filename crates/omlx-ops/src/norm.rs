//! RMS norm (Zhang and Sennrich, 2019), alone or fused with the residual addition before it. Weights and sums are f32.

use candle_core::{D, Tensor};

use crate::dispatch::Target;
use crate::simd::{Isa, LANES, Simd, for_isa};
use crate::threads::{self, SharedMut};
use crate::{Error, Result, host};

/// `x / sqrt(mean(x^2) + eps) * w` over the last dimension. `x [.., D]`, `w [D]`.
///
/// # Errors
/// When `w` does not have the size of `x`'s last dimension, or an operand is not f32.
pub fn rms_norm(x: &Tensor, w: &Tensor, eps: f32) -> Result<Tensor> {
    check(x, w)?;
    match Target::of(x.device()) {
        Target::Cpu => cpu(x, w, eps),
        Target::Reference => reference(x, w, eps),
    }
}

/// The residual step between two sub-layers: returns `(x + y, rms_norm(x + y))`.
///
/// # Errors
/// As [`rms_norm`], and when `x` and `y` differ in shape.
pub fn add_rms_norm(x: &Tensor, y: &Tensor, w: &Tensor, eps: f32) -> Result<(Tensor, Tensor)> {
    check(x, w)?;
    if x.dims() != y.dims() {
        return Err(Error::shape("add_rms_norm", "y", x.dims(), y.dims()));
    }
    match Target::of(x.device()) {
        Target::Cpu if x.rank() == 2 => cpu_add(x, y, w, eps),
        _ => {
            let sum = (x + y)?;
            let normed = rms_norm(&sum, w, eps)?;
            Ok((sum, normed))
        }
    }
}

fn check(x: &Tensor, w: &Tensor) -> Result<()> {
    let last = x.dim(D::Minus1)?;
    if w.dims() != [last] {
        return Err(Error::shape("rms_norm", "w", [last], w.dims()));
    }
    Ok(())
}

/// Plain loops that the compiler turns into vectors of the set.
#[inline(always)]
unsafe fn norm<S: Simd>(out: &mut [f32], x: &[f32], w: &[f32], eps: f32) {
    // Sixteen partial sums in a fixed order: fast, and the same for a row wherever it stands.
    let mut lanes = [0f32; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().map(|v| v * v).sum();
    for chunk in chunks {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane += v * v;
        }
    }
    let mean = (lanes.iter().sum::<f32>() + rest) / x.len() as f32;
    let scale = 1.0 / (mean + eps).sqrt();
    for ((o, v), w) in out.iter_mut().zip(x).zip(w) {
        *o = v * scale * w;
    }
}

fn norm_into(out: &mut [f32], x: &[f32], w: &[f32], eps: f32) {
    for_isa!(Isa::best(), norm::<>(out: &mut [f32], x: &[f32], w: &[f32], eps: f32));
}

/// Elements worth a task.
const GRAIN: usize = 8192;

fn cpu(x: &Tensor, w: &Tensor, eps: f32) -> Result<Tensor> {
    let rows = host::rows(x, "rms_norm", "x")?;
    let weight = host::rows(w, "rms_norm", "w")?;
    let (data, stride) = (rows.as_slice(), rows.stride());
    let (width, dim) = (rows.width, weight.rows);
    let w = &weight.as_slice()[..dim];
    let mut out = vec![0f32; rows.rows * width];
    threads::for_rows(&mut out, width, GRAIN, |t, row| {
        let x = &data[t * stride..][..width];
        for (o, x) in row.chunks_exact_mut(dim).zip(x.chunks_exact(dim)) {
            norm_into(o, x, w, eps);
        }
    });
    host::tensor(out, x.dims())
}

fn cpu_add(x: &Tensor, y: &Tensor, w: &Tensor, eps: f32) -> Result<(Tensor, Tensor)> {
    let xs = host::rows(x, "add_rms_norm", "x")?;
    let ys = host::rows(y, "add_rms_norm", "y")?;
    let weight = host::rows(w, "add_rms_norm", "w")?;
    let width = xs.width;
    let w = &weight.as_slice()[..width];
    let (x_data, x_stride) = (xs.as_slice(), xs.stride());
    let (y_data, y_stride) = (ys.as_slice(), ys.stride());
    let mut sums = vec![0f32; xs.rows * width];
    let mut out = vec![0f32; xs.rows * width];
    let all_sums = SharedMut::new(&mut sums);
    threads::for_rows(&mut out, width, GRAIN, |t, out| {
        // SAFETY: each row belongs to one task.
        let sum = unsafe { all_sums.slice(t * width, width) };
        let pairs = x_data[t * x_stride..][..width].iter().zip(&y_data[t * y_stride..][..width]);
        for (s, (a, b)) in sum.iter_mut().zip(pairs) {
            *s = a + b;
        }
        norm_into(out, sum, w, eps);
    });
    Ok((host::tensor(sums, x.dims())?, host::tensor(out, x.dims())?))
}

fn reference(x: &Tensor, w: &Tensor, eps: f32) -> Result<Tensor> {
    let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
    Ok(x.broadcast_div(&(mean + f64::from(eps))?.sqrt()?)?.broadcast_mul(w)?)
}

#[cfg(test)]
mod tests;
