//! The tensor directory: what each tensor is called, how it is stored and where it lies.

use crate::error::{Error, Result};
use crate::kind::GgmlType;

/// One entry of the directory. Its bytes lie wholly inside the file and overlap no other tensor's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name, as in `blk.0.attn_q.weight`.
    pub name: String,
    /// Its shape, outermost first: `[rows, cols]` (the file has it the other way round).
    pub dims: Vec<usize>,
    /// How its values are stored.
    pub kind: GgmlType,
    /// Where it begins, counted from the start of the file.
    pub offset: u64,
    /// How many bytes it takes.
    pub bytes: u64,
}

impl TensorInfo {
    /// Number of values.
    pub fn elems(&self) -> usize {
        self.dims.iter().product()
    }

    /// Checks shape and storage against each other. `dims` is outermost first; `offset` is left as the file has it, counted from the data section.
    pub(crate) fn new(name: String, dims: &[u64], kind: GgmlType, offset: u64) -> Result<Self> {
        let elems = dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        let cols = dims.last().copied().unwrap_or(1);
        let block = kind.block_elems() as u64;
        let bytes = elems.filter(|&n| n > 0).and_then(|n| (n / block).checked_mul(kind.block_bytes() as u64));
        let narrow: Option<Vec<usize>> = dims.iter().map(|&d| usize::try_from(d).ok()).collect();
        let (Some(bytes), Some(narrow)) = (bytes, narrow) else {
            return Err(Error::BadShape { tensor: name, dims: dims.to_vec() });
        };
        if cols % block != 0 {
            return Err(Error::RaggedRow { tensor: name, cols, kind: kind.name(), block: kind.block_elems() });
        }
        Ok(Self { name, dims: narrow, kind, offset, bytes })
    }

    /// Turns the offset into one from the start of the file, if the tensor then lies inside it.
    pub(crate) fn place(&mut self, data_start: u64, alignment: u64, file_bytes: u64) -> Result<()> {
        if !self.offset.is_multiple_of(alignment) {
            return Err(Error::Misaligned { tensor: self.name.clone(), offset: self.offset, alignment });
        }
        let start = data_start.saturating_add(self.offset);
        if start.checked_add(self.bytes).is_none_or(|end| end > file_bytes) {
            return Err(Error::PastEnd { tensor: self.name.clone(), start, bytes: self.bytes, file_bytes });
        }
        self.offset = start;
        Ok(())
    }
}

/// Refuses tensors that share bytes: one of the two would be another's weights.
pub(crate) fn refuse_overlap(tensors: &[TensorInfo]) -> Result<()> {
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_by_key(|t| t.offset);
    match order.windows(2).find(|w| w[0].offset + w[0].bytes > w[1].offset) {
        Some(w) => Err(Error::Overlap { first: w[0].name.clone(), second: w[1].name.clone() }),
        None => Ok(()),
    }
}
