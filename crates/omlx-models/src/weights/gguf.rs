//! GGUF tensors: plain types as they are, block types packed exactly, as codes with scales.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use half::{bf16, f16};
use omlx_gguf::{GgmlType, Gguf, TensorInfo};
use omlx_ops::Linear;

use super::map::{self, Mapped, words};
use super::{Matrix, Nth, blocks};
use crate::{Error, Result};

/// The types that load.
const KNOWN: [&str; 11] = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"];

/// A GGUF file, its directory read and its data mapped.
#[derive(Debug)]
pub struct GgufFile {
    gguf: Gguf,
    mapped: Mapped,
}

impl GgufFile {
    /// Reads the directory and maps the file.
    ///
    /// # Errors
    /// When it is no GGUF file, or a damaged one.
    pub fn open(path: &Path) -> Result<Self> {
        let gguf = Gguf::open(path)?;
        Ok(Self { gguf, mapped: Mapped::open(path)? })
    }

    /// Metadata and directory.
    pub fn gguf(&self) -> &Gguf {
        &self.gguf
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.mapped.path
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.mapped.bytes()
    }

    pub(crate) fn stored(&self, name: &str) -> Option<(&'static str, u64, u64)> {
        self.gguf.tensor(name).map(|t| (t.kind.name(), t.elems() as u64, t.bytes))
    }

    /// All tensors, by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.gguf.tensors().map(|t| t.name.as_str())
    }

    /// Whether there is a tensor of this name.
    pub fn holds(&self, name: &str) -> bool {
        self.gguf.tensor(name).is_some()
    }

    /// Rows of a matrix.
    ///
    /// # Errors
    /// When it is absent.
    pub fn rows(&self, name: &str) -> Result<usize> {
        Ok(self.info(name)?.dims.first().copied().unwrap_or(1))
    }

    /// A matrix, or a slice of several, in the type it is stored in, its rows in the order given.
    ///
    /// # Errors
    /// When it is absent, of another shape, or of a type that does not load.
    pub fn matrix(
        &self,
        name: &str,
        want: Matrix,
        (order, nth): (Option<&[usize]>, Option<Nth>),
        bias: Option<Tensor>,
        device: &Device,
    ) -> Result<Linear> {
        let (info, bytes) = self.data(name, &[want.rows, want.cols], nth)?;
        let linear = match plain(info.kind) {
            Some(dtype) => {
                let width = want.cols * dtype.size_in_bytes();
                let row = |row: usize| &bytes[order.map_or(row, |order| order[row]) * width..][..width];
                Linear::from_rows(dtype, (want.rows, want.cols), row, bias, device)
            }
            None => blocks::pack(info.kind, bytes, (want.rows, want.cols), order)
                .ok_or_else(|| self.dtype(info))?
                .and_then(|packed| Linear::packed(packed, bias)),
        };
        linear.map_err(|source| Error::device(name, source))
    }

    /// A vector in f32.
    ///
    /// # Errors
    /// When it is absent, of another length, or of a type that vectors are not stored in.
    pub fn vector(&self, name: &str, len: usize, nth: Option<Nth>) -> Result<Vec<f32>> {
        let (info, bytes) = self.data(name, &[len], nth)?;
        self.numbers(info, bytes)
    }

    /// All values of a tensor of a plain type in f32.
    ///
    /// # Errors
    /// When it is absent or of a block type.
    pub fn floats(&self, name: &str) -> Result<Vec<f32>> {
        let info = self.info(name)?;
        self.numbers(info, self.slice(info))
    }

    fn numbers(&self, info: &TensorInfo, bytes: &[u8]) -> Result<Vec<f32>> {
        match info.kind {
            GgmlType::F32 => Ok(map::floats(bytes).collect()),
            GgmlType::F16 => Ok(words(bytes).map(|w| f16::from_bits(w).to_f32()).collect()),
            GgmlType::BF16 => Ok(words(bytes).map(|w| bf16::from_bits(w).to_f32()).collect()),
            _ => Err(self.dtype(info)),
        }
    }

    fn dtype(&self, info: &TensorInfo) -> Error {
        let (file, tensor) = (self.path().to_owned(), info.name.clone());
        Error::Dtype { file, tensor, found: info.kind.name().into(), known: KNOWN.to_vec() }
    }

    fn info(&self, name: &str) -> Result<&TensorInfo> {
        let absent = || Error::MissingTensor { file: self.path().to_owned(), tensor: name.to_owned() };
        self.gguf.tensor(name).ok_or_else(absent)
    }

    fn data(&self, name: &str, slice: &[usize], nth: Option<Nth>) -> Result<(&TensorInfo, &[u8])> {
        let shape = Nth::whole(nth, slice);
        let info = self.info(name)?;
        if info.dims != shape {
            let (file, tensor) = (self.path().to_owned(), name.to_owned());
            return Err(Error::Shape { file, tensor, expected: shape, found: info.dims.clone() });
        }
        Ok((info, Nth::cut(nth, self.slice(info))))
    }

    /// The container was checked against the file's size when it was opened.
    fn slice(&self, info: &TensorInfo) -> &[u8] {
        &self.mapped.bytes()[info.offset as usize..][..info.bytes as usize]
    }
}

fn plain(kind: GgmlType) -> Option<DType> {
    match kind {
        GgmlType::F32 => Some(DType::F32),
        GgmlType::F16 => Some(DType::F16),
        GgmlType::BF16 => Some(DType::BF16),
        _ => None,
    }
}
