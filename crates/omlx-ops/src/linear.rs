//! Linear layers `y = x wᵀ + b` over dense or packed weights.
//!
//! One `Linear` may be several weight matrices standing one under another (a fused q/k/v or gate/up projection), each in its
//! own format, so that fusing never forces a conversion. A row of `x` gives the same bits alone and in any crowd.

mod acts;
mod cpu;
mod dense;
mod int8;
mod outer;
mod packed;
mod reference;
#[cfg(test)]
mod tests;

use std::ops::Range;

use candle_core::{DType, Device, Tensor};

use dense::{Dense, Float};
pub use packed::{Packed, PackedFormat, PackedParts, PackedRow, Zero};

use crate::dispatch::Target;
use crate::simd::Isa;
use crate::{Error, Result, host, threads};

/// One weight matrix `[N, K]`.
#[derive(Clone, Debug)]
pub(crate) enum Weight {
    /// f32, f16 or bf16.
    Dense(Dense),
    /// The same on another device, row-major.
    Elsewhere(Tensor),
    /// Small integer codes with a scale and a bias per group.
    Packed(Packed),
}

impl Weight {
    fn dims(&self) -> (usize, usize) {
        match self {
            Self::Dense(w) => w.dims(),
            Self::Elsewhere(w) => (w.dims()[0], w.dims()[1]),
            Self::Packed(w) => (w.rows(), w.cols()),
        }
    }
}

/// Layers of one shape, each on its own run of the rows of `x [M, K]`: together `[M, N]`. The runs are in order and leave no
/// row out; a layer that has none is not named.
pub(crate) fn grouped(jobs: &[(&Linear, Range<usize>)], x: &Tensor) -> Result<Tensor> {
    let (rows, _) = x.dims2()?;
    if jobs.iter().all(|(linear, _)| linear.device().is_cpu()) && matches!(Target::of(x.device()), Target::Cpu) {
        return cpu::grouped(Isa::best(), jobs, x);
    }
    let each = jobs.iter().map(|(linear, run)| reference::forward(linear, &x.narrow(0, run.start, run.len())?));
    match each.collect::<Result<Vec<_>>>()?.as_slice() {
        [] => Ok(Tensor::zeros((rows, 0), DType::F32, x.device())?),
        parts => Ok(Tensor::cat(parts, 0)?),
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
    /// When the weight is not a matrix of floats, the bias has another size, or there is no memory.
    pub fn dense(weight: Tensor, bias: Option<Tensor>) -> Result<Self> {
        let float = Float::of(weight.dtype())?;
        let (rows, cols) = weight.dims2()?;
        let weight = if weight.is_contiguous() { weight } else { weight.contiguous()? };
        let weight = if weight.device().is_cpu() {
            let (storage, layout) = weight.storage_and_layout();
            let bytes = host::Floats::of(&storage, layout.start_offset(), "linear")?.bytes();
            let width = cols * weight.dtype().size_in_bytes();
            Weight::Dense(Dense::new(float, (rows, cols), |row| &bytes[row * width..][..width])?)
        } else {
            Weight::Elsewhere(weight)
        };
        Self::new(vec![weight], bias, rows, cols)
    }

    /// A layer of plain floats from memory that holds its rows as a tensor file does, `K` numbers of `dtype` each, on
    /// `device`. On the CPU this is the only copy that is made. `row` is called from several threads.
    ///
    /// # Errors
    /// As [`Self::dense`], and when a row has another number of bytes.
    pub fn from_rows<'a>(
        dtype: DType,
        (rows, cols): (usize, usize),
        row: impl Fn(usize) -> &'a [u8] + Sync,
        bias: Option<Tensor>,
        device: &Device,
    ) -> Result<Self> {
        if device.is_cpu() {
            let weight = Dense::new(Float::of(dtype)?, (rows, cols), row)?;
            return Self::new(vec![Weight::Dense(weight)], bias, rows, cols);
        }
        let all: Vec<u8> = (0..rows).flat_map(row).copied().collect();
        Self::dense(Tensor::from_raw_buffer(&all, dtype, &[rows, cols], device)?, bias)
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

    /// What is added to every output, `[N]` f32.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }

    /// Memory that the weights take, in bytes; all of it is read once per decode step.
    pub fn bytes(&self) -> usize {
        let of = |w: &Weight| match w {
            Weight::Dense(w) => w.bytes(),
            Weight::Elsewhere(w) => w.elem_count() * w.dtype().size_in_bytes(),
            Weight::Packed(w) => w.bytes(),
        };
        self.parts.iter().map(of).sum()
    }

    fn device(&self) -> &Device {
        match &self.parts[0] {
            Weight::Elsewhere(w) => w.device(),
            Weight::Dense(_) | Weight::Packed(_) => &Device::Cpu,
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
            Target::Cpu if self.device().is_cpu() => cpu::forward(self, x),
            _ => reference::forward(self, x),
        }
    }

    /// [`Self::forward`] by the obvious version.
    pub(crate) fn forward_plain(&self, x: &Tensor) -> Result<Tensor> {
        reference::forward(self, x)
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
        threads::for_rows(&mut out, self.cols, 4096, |i, out| self.row_into(ids[i] as usize, out));
        host::tensor(out, (ids.len(), self.cols))
    }

    fn row_into(&self, mut row: usize, out: &mut [f32]) {
        for part in &self.parts {
            let (rows, _) = part.dims();
            if row >= rows {
                row -= rows;
                continue;
            }
            return match part {
                Weight::Dense(w) => w.row_into(row, out),
                Weight::Packed(w) => w.row_into(row, out),
                Weight::Elsewhere(_) => unreachable!("`gather` takes such weights to the reference"),
            };
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
