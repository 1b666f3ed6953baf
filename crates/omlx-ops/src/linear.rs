//! Linear layers `y = x wᵀ + b` over dense or packed weights.
//!
//! One `Linear` may be several weight matrices standing one under another (a fused q/k/v or gate/up projection), each in its
//! own format, so that fusing never forces a conversion. A row of `x` gives the same bits alone and in any crowd.

mod acts;
mod cpu;
mod int8;
mod packed;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::{DType, Device, Tensor};

pub use packed::{Packed, PackedFormat, PackedParts, PackedRow, Zero};

use crate::dispatch::Target;
use crate::{Error, Result, host};

/// One weight matrix `[N, K]`.
#[derive(Clone, Debug)]
pub(crate) enum Weight {
    /// f32, f16 or bf16, row-major.
    Dense(Tensor),
    /// Small integer codes with a scale and a bias per group.
    Packed(Packed),
}

impl Weight {
    fn dims(&self) -> (usize, usize) {
        match self {
            Self::Dense(w) => (w.dims()[0], w.dims()[1]),
            Self::Packed(w) => (w.rows(), w.cols()),
        }
    }
}

/// A linear layer, or several with the same input.
#[derive(Clone, Debug)]
pub struct Linear {
    parts: Vec<Weight>,
    bias: Option<Tensor>, // [N] f32
    rows: usize,
    cols: usize,
}

impl Linear {
    /// A layer of plain floats: `weight [N, K]` in f32, f16 or bf16; `bias [N]` in any of them.
    ///
    /// # Errors
    /// When the weight is not a matrix of floats, or the bias has another size.
    pub fn dense(weight: Tensor, bias: Option<Tensor>) -> Result<Self> {
        if !matches!(weight.dtype(), DType::F32 | DType::F16 | DType::BF16) {
            let (op, what, expected) = ("linear", "weight", "F32, F16, BF16");
            return Err(Error::Dtype { op, what, expected, found: weight.dtype() });
        }
        let (rows, cols) = weight.dims2()?;
        let weight = if weight.is_contiguous() { weight } else { weight.contiguous()? };
        Self::new(vec![Weight::Dense(weight)], bias, rows, cols)
    }

    /// A layer of packed codes.
    ///
    /// # Errors
    /// When the bias does not have one value per row.
    pub fn packed(weight: Packed, bias: Option<Tensor>) -> Result<Self> {
        let (rows, cols) = (weight.rows(), weight.cols());
        Self::new(vec![Weight::Packed(weight)], bias, rows, cols)
    }

    /// Layers with one input, their outputs one after another.
    ///
    /// # Errors
    /// When there is none, or the input sizes differ.
    pub fn stack(layers: Vec<Self>) -> Result<Self> {
        let Some(first) = layers.first() else {
            return Err(Error::shape("linear", "layers to stack", "at least one", 0));
        };
        let cols = first.cols;
        if let Some(other) = layers.iter().find(|l| l.cols != cols) {
            return Err(Error::shape("linear", "input size of every stacked layer", cols, other.cols));
        }
        let rows = layers.iter().map(|l| l.rows).sum();
        let bias = if layers.iter().any(|l| l.bias.is_some()) {
            let of = |l: &Self| match &l.bias {
                Some(bias) => Ok(bias.clone()),
                None => Tensor::zeros(l.rows, DType::F32, l.device()),
            };
            let all = layers.iter().map(of).collect::<candle_core::Result<Vec<_>>>()?;
            Some(Tensor::cat(&all, 0)?)
        } else {
            None
        };
        Self::new(layers.into_iter().flat_map(|l| l.parts).collect(), bias, rows, cols)
    }

    fn new(parts: Vec<Weight>, bias: Option<Tensor>, rows: usize, cols: usize) -> Result<Self> {
        if let Some(bias) = &bias
            && bias.dims() != [rows]
        {
            return Err(Error::shape("linear", "bias", [rows], bias.dims()));
        }
        let bias = bias.map(|b| b.to_dtype(DType::F32)?.contiguous()).transpose()?;
        Ok(Self { parts, bias, rows, cols })
    }

    /// Output size `N`.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input size `K`.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Memory that the weights take, in bytes; all of it is read once per decode step.
    pub fn bytes(&self) -> usize {
        let of = |w: &Weight| match w {
            Weight::Dense(w) => w.elem_count() * w.dtype().size_in_bytes(),
            Weight::Packed(w) => w.bytes(),
        };
        self.parts.iter().map(of).sum()
    }

    fn device(&self) -> &Device {
        match &self.parts[0] {
            Weight::Dense(w) => w.device(),
            Weight::Packed(_) => &Device::Cpu,
        }
    }

    /// `x [T, K]` f32 to `[T, N]` f32.
    ///
    /// # Errors
    /// When `x` has another width or is not f32.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (_, cols) = x.dims2()?;
        if cols != self.cols {
            return Err(Error::shape("linear", "x's last dimension", self.cols, cols));
        }
        match Target::of(x.device()) {
            Target::Cpu => cpu::forward(self, x),
            Target::Reference => reference::forward(self, x),
        }
    }

    /// The rows `ids` of the weight as f32 `[ids, K]`: an embedding look-up.
    ///
    /// # Errors
    /// When an id is not below [`Self::rows`].
    pub fn gather(&self, ids: &[u32]) -> Result<Tensor> {
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.rows) {
            return Err(Error::shape("gather", "ids below", self.rows, id));
        }
        if matches!(Target::of(self.device()), Target::Reference) {
            return reference::gather(self, ids);
        }
        let mut out = vec![0f32; ids.len() * self.cols];
        for (out, id) in out.chunks_exact_mut(self.cols).zip(ids) {
            self.row_into(*id as usize, out)?;
        }
        host::tensor(out, (ids.len(), self.cols))
    }

    fn row_into(&self, mut row: usize, out: &mut [f32]) -> Result<()> {
        for part in &self.parts {
            let (rows, cols) = part.dims();
            if row >= rows {
                row -= rows;
                continue;
            }
            match part {
                Weight::Packed(w) => w.row_into(row, out),
                Weight::Dense(w) => {
                    let (storage, layout) = w.storage_and_layout();
                    let at = layout.start_offset() + row * cols;
                    match host::Floats::of(&storage, at, "gather")? {
                        host::Floats::F32(w) => out.copy_from_slice(&w[..cols]),
                        host::Floats::F16(w) => widen(out, w, half::f16::to_f32),
                        host::Floats::Bf16(w) => widen(out, w, half::bf16::to_f32),
                    }
                }
            }
            return Ok(());
        }
        unreachable!("`gather` checked the row")
    }

    /// The whole weight as f32 `[N, K]`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn dequantize(&self) -> Result<Tensor> {
        reference::dequantize(self)
    }
}

fn widen<T: Copy>(out: &mut [f32], row: &[T], to_f32: impl Fn(T) -> f32) {
    for (out, w) in out.iter_mut().zip(row) {
        *out = to_f32(*w);
    }
}
