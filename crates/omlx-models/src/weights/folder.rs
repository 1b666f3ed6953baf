//! Safetensors, single or sharded: which files make up the model, and their tensors.
//!
//! The index file is compared with what lies in the folder, never believed and never ignored: a stale one beside a complete
//! set of shards is a warning, an incomplete set is an error that names the missing file.

mod shards;

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use half::{bf16, f16};
use omlx_ops::Linear;
use safetensors::tensor::{Dtype, TensorInfo};

use super::map::{self, Mapped};
use super::{Matrix, Nth, affine, mxfp4};
use super::{header, map::words};
use crate::config::{Affine, Quantization};
use crate::{Error, HeaderFault, Result, Warning};

/// The types that load.
const KNOWN: [&str; 3] = ["F32", "BF16", "F16"];
/// What packed ones of 2 to 8 bits are called.
const PACKED: [&str; 7] = ["affine2", "affine3", "affine4", "affine5", "affine6", "", "affine8"];

/// The tensor files of a model folder.
#[derive(Debug)]
pub struct Folder {
    files: Vec<Shard>,
    tensors: BTreeMap<String, Place>,
    warnings: Vec<Warning>,
    folder: std::path::PathBuf,
    packing: Quantization,
}

#[derive(Debug)]
struct Shard {
    mapped: Mapped,
    data: usize,
}

#[derive(Debug)]
struct Place {
    file: usize,
    info: TensorInfo,
}

impl Folder {
    /// Finds and maps the files, and checks their headers.
    ///
    /// # Errors
    /// When a file is absent, empty or damaged, or the index names a tensor that its file does not hold.
    pub fn open(folder: &Path) -> Result<Self> {
        let found = shards::find(folder)?;
        let mut this = Self {
            files: Vec::new(),
            tensors: BTreeMap::new(),
            warnings: found.warning.into_iter().collect(),
            folder: folder.to_owned(),
            packing: Quantization::default(),
        };
        for name in &found.files {
            this.add(&folder.join(name))?;
        }
        for (tensor, file) in &found.index {
            let holder = this.tensors.get(tensor).and_then(|p| this.files[p.file].mapped.path.file_name());
            let holder = holder.map(|name| name.to_string_lossy().into_owned());
            if holder.as_ref() != Some(file) {
                let (index, tensor, shard) = (folder.join(shards::INDEX), tensor.clone(), file.clone());
                return Err(Error::Index { index, tensor, shard, other: holder });
            }
        }
        Ok(this)
    }

    /// The same, of a model whose config says how its matrices are packed.
    #[must_use]
    pub fn packed_as(self, packing: Quantization) -> Self {
        Self { packing, ..self }
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let mapped = Mapped::open(path)?;
        if mapped.bytes().is_empty() {
            return Err(Error::Empty { file: path.to_owned() });
        }
        let (data, metadata) = header::read(mapped.bytes()).map_err(|(tensor, fault)| match (tensor, fault) {
            // Not a damaged file, but one of a kind that is not read.
            (Some(tensor), HeaderFault::Dtype { dtype }) => {
                Error::Dtype { file: path.to_owned(), tensor, found: dtype, known: KNOWN.to_vec() }
            }
            (tensor, fault) => Error::Safetensors { file: path.to_owned(), tensor, fault: Box::new(fault) },
        })?;
        for (name, info) in metadata.tensors() {
            let place = Place { file: self.files.len(), info: info.clone() };
            if let Some(other) = self.tensors.insert(name.clone(), place) {
                let other = self.files[other.file].mapped.path.display().to_string();
                return Err(Error::DuplicateTensor { file: path.to_owned(), other, tensor: name });
            }
        }
        self.files.push(Shard { mapped, data });
        Ok(())
    }

    /// Oddities that do not prevent loading.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// All tensors, by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Whether there is a tensor of this name.
    pub fn holds(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor, if it is there; of a packed one, that of the matrix it stands for.
    pub fn shape(&self, name: &str) -> Option<Vec<usize>> {
        let mut shape = self.tensors.get(name)?.info.shape.clone();
        if let (Some(how), Some(last)) = (self.packing_of(name), shape.last_mut()) {
            *last = *last * 32 / how.bits;
        }
        Some(shape)
    }

    /// The tensors beside a packed one that belong to it.
    pub(crate) fn companions(&self, name: &str) -> Option<[String; 2]> {
        let module = name.strip_suffix(".weight")?;
        let scales = format!("{module}.scales");
        self.holds(&scales).then(|| [scales, format!("{module}.biases")])
    }

    /// Every tensor beside a matrix that belongs to it.
    pub(crate) fn beside(&self, name: &str) -> Vec<String> {
        match name.strip_suffix("_blocks") {
            Some(stem) => vec![format!("{stem}_scales")],
            None => self.companions(name).map_or(Vec::new(), Vec::from),
        }
    }

    /// A matrix is packed if its scales are there and the config says how.
    fn packing_of(&self, name: &str) -> Option<Affine> {
        self.companions(name)?;
        self.packing.of(name.strip_suffix(".weight")?)
    }

    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.files.iter().map(|f| f.mapped.bytes())
    }

    pub(crate) fn stored(&self, name: &str) -> Option<(&'static str, u64, u64)> {
        let info = &self.tensors.get(name)?.info;
        let elems: usize = info.shape.iter().product();
        let bytes = (info.data_offsets.1 - info.data_offsets.0) as u64;
        if let Some(how) = self.packing_of(name) {
            return Some((PACKED[how.bits - 2], (elems * 32 / how.bits) as u64, bytes));
        }
        if name.ends_with("_blocks") {
            return Some(("mxfp4", (2 * elems) as u64, bytes));
        }
        // Scales and biases are no values of their own.
        let own = ![".scales", ".biases", "_scales"].iter().any(|end| name.ends_with(end));
        Some((loadable(info.dtype).map_or("", |(_, name)| name), if own { elems as u64 } else { 0 }, bytes))
    }

    /// A matrix, or a slice of several, in the type it is stored in.
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
        if let Some(stem) = name.strip_suffix("_blocks").filter(|_| self.packing.is_mxfp4()) {
            return self.mxfp4([name, &format!("{stem}_scales")], want, (order, nth), bias);
        }
        if let Some(how) = self.packing_of(name) {
            return self.packed(name, how, want, nth, bias);
        }
        let (dtype, bytes) = self.bytes(name, &[want.rows, want.cols], nth)?;
        let width = want.cols * dtype.size_in_bytes();
        let row = |row: usize| &bytes[order.map_or(row, |order| order[row]) * width..][..width];
        Linear::from_rows(dtype, (want.rows, want.cols), row, bias, device)
            .map_err(|source| Error::device(name, source))
    }

    fn mxfp4(
        &self,
        [blocks, scales]: [&str; 2],
        want: Matrix,
        (order, nth): (Option<&[usize]>, Option<Nth>),
        bias: Option<Tensor>,
    ) -> Result<Linear> {
        let Matrix { rows, cols, .. } = want;
        if cols % mxfp4::GROUP != 0 {
            let (file, tensor) = (self.folder.clone(), blocks.to_owned());
            return Err(Error::Packing {
                file,
                tensor,
                found: format!("{cols} columns in groups of {}", mxfp4::GROUP),
            });
        }
        let groups = cols / mxfp4::GROUP;
        let (_, codes) = self.raw(blocks, &[rows, groups, mxfp4::GROUP / 2], nth, &[Dtype::U8])?;
        let (_, exponents) = self.raw(scales, &[rows, groups], nth, &[Dtype::U8])?;
        mxfp4::pack(codes, exponents, (rows, cols), order)
            .and_then(|packed| Linear::packed(packed, bias))
            .map_err(|source| Error::device(blocks, source))
    }

    fn packed(&self, name: &str, how: Affine, want: Matrix, nth: Option<Nth>, bias: Option<Tensor>) -> Result<Linear> {
        let Matrix { rows, cols, .. } = want;
        if cols % how.group != 0 {
            let (file, tensor) = (self.folder.clone(), name.to_owned());
            let found = format!("{cols} columns in groups of {}", how.group);
            return Err(Error::Packing { file, tensor, found });
        }
        let [scales, biases] = self.companions(name).unwrap_or_default();
        // Shapes that follow from bits and group: where a file's are others, the config speaks of another file.
        let (dtype, codes) = self.raw(name, &[rows, cols * how.bits / 32], nth, &[Dtype::U32])?;
        debug_assert_eq!(dtype, Dtype::U32);
        let floats = [Dtype::F32, Dtype::BF16, Dtype::F16];
        let (dtype, scales) = self.raw(&scales, &[rows, cols / how.group], nth, &floats)?;
        let (_, biases) = self.raw(&biases, &[rows, cols / how.group], nth, &[dtype])?;
        let stored = affine::Stored { codes, scales, biases, dtype };
        affine::pack(how, &stored, (rows, cols))
            .and_then(|packed| Linear::packed(packed, bias))
            .map_err(|source| Error::device(name, source))
    }

    /// All values of a tensor in f32.
    ///
    /// # Errors
    /// When it is absent, of another shape, or of a type that does not load.
    pub fn floats(&self, name: &str, shape: &[usize], nth: Option<Nth>) -> Result<Vec<f32>> {
        let (dtype, bytes) = self.bytes(name, shape, nth)?;
        Ok(match dtype {
            DType::BF16 => words(bytes).map(|w| bf16::from_bits(w).to_f32()).collect(),
            DType::F16 => words(bytes).map(|w| f16::from_bits(w).to_f32()).collect(),
            _ => map::floats(bytes).collect(),
        })
    }

    fn bytes(&self, name: &str, slice: &[usize], nth: Option<Nth>) -> Result<(DType, &[u8])> {
        let (dtype, bytes) = self.raw(name, slice, nth, &[Dtype::F32, Dtype::BF16, Dtype::F16])?;
        Ok((loadable(dtype).map_or(DType::F32, |(dtype, _)| dtype), bytes))
    }

    fn raw(&self, name: &str, slice: &[usize], nth: Option<Nth>, known: &[Dtype]) -> Result<(Dtype, &[u8])> {
        let shape = Nth::whole(nth, slice);
        let Some(Place { file, info }) = self.tensors.get(name) else {
            return Err(Error::MissingTensor { file: self.folder.clone(), tensor: name.to_owned() });
        };
        let shard = &self.files[*file];
        let (file, tensor) = (shard.mapped.path.clone(), name.to_owned());
        if info.shape != shape {
            return Err(Error::Shape { file, tensor, expected: shape, found: info.shape.clone() });
        }
        if !known.contains(&info.dtype) {
            let known = match known {
                [Dtype::U32] => vec!["U32"],
                [Dtype::U8] => vec!["U8"],
                _ => KNOWN.to_vec(),
            };
            return Err(Error::Dtype { file, tensor, found: info.dtype.to_string(), known });
        }
        let (begin, end) = info.data_offsets;
        match shard.mapped.bytes().get(shard.data + begin..shard.data + end) {
            Some(bytes) => Ok((info.dtype, Nth::cut(nth, bytes))),
            // Checked when the header was read; here for the compiler and for nobody else.
            None => Err(Error::Safetensors {
                file,
                tensor: Some(tensor),
                fault: Box::new(HeaderFault::CutShort { end, data: shard.mapped.bytes().len() - shard.data }),
            }),
        }
    }
}

fn loadable(dtype: Dtype) -> Option<(DType, &'static str)> {
    match dtype {
        Dtype::F32 => Some((DType::F32, KNOWN[0])),
        Dtype::BF16 => Some((DType::BF16, KNOWN[1])),
        Dtype::F16 => Some((DType::F16, KNOWN[2])),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
