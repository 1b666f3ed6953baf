//! What is wrong with a safetensors header: which tensor, and how.
//!
//! The safetensors library decides whether a header is right. It says little about what is wrong; this file finds the
//! tensor to name, and runs only then.

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::HeaderFault;

const PREFIX: usize = 8;

/// Where the data begins, and what the header says.
pub(crate) fn read(bytes: &[u8]) -> Result<(usize, Metadata), (Option<String>, HeaderFault)> {
    match SafeTensors::read_metadata(bytes) {
        Ok((header, metadata)) => Ok((PREFIX + header, metadata)),
        Err(error) => Err(blame(bytes).unwrap_or((None, HeaderFault::Other(error)))),
    }
}

/// One entry, with the type still a word.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// The first fault in the order of the data, if it is one that a tensor or the header's length is to blame for.
fn blame(bytes: &[u8]) -> Option<(Option<String>, HeaderFault)> {
    let Some(length) = bytes.first_chunk::<PREFIX>() else {
        return Some((None, HeaderFault::TooShort { bytes: bytes.len() }));
    };
    let header = u64::from_le_bytes(*length);
    let end = usize::try_from(header).ok().and_then(|n| n.checked_add(PREFIX));
    let Some(text) = end.and_then(|end| bytes.get(PREFIX..end)) else {
        return Some((None, HeaderFault::HeaderLength { header, bytes: bytes.len() }));
    };
    let data = bytes.len() - PREFIX - text.len();
    let entries: Map<String, Value> = match serde_json::from_slice(text) {
        Ok(entries) => entries,
        Err(error) => return Some((None, HeaderFault::NotJson(error))),
    };
    let mut tensors = Vec::new();
    for (name, entry) in entries.into_iter().filter(|(name, _)| name != "__metadata__") {
        match serde_json::from_value::<Entry>(entry) {
            Ok(entry) => tensors.push((name, entry)),
            Err(error) => return Some((Some(name), HeaderFault::Entry(error))),
        }
    }
    tensors.sort_by_key(|(_, e)| e.data_offsets);
    let mut end = 0;
    for (name, entry) in &tensors {
        if let Some(fault) = entry.fault(end, data) {
            return Some((Some(name.clone()), fault));
        }
        end = entry.data_offsets.1;
    }
    (end < data).then_some((None, HeaderFault::Trailing { bytes: data - end }))
}

impl Entry {
    fn fault(&self, before: usize, data: usize) -> Option<HeaderFault> {
        let (begin, end) = self.data_offsets;
        let elems = self.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let Ok(dtype) = serde_json::from_value::<Dtype>(self.dtype.clone().into()) else {
            return Some(HeaderFault::Dtype { dtype: self.dtype.clone() });
        };
        let bits = elems.and_then(|elems| elems.checked_mul(dtype.bitsize()));
        let fits = bits.is_some_and(|n| Some(n) == end.wrapping_sub(begin).checked_mul(8));
        if begin < before {
            Some(HeaderFault::Overlap { begin, end: before })
        } else if begin > before {
            Some(HeaderFault::Hole { begin, end: before })
        } else if end < begin || !fits {
            Some(HeaderFault::Span { dtype: self.dtype.clone(), shape: self.shape.clone(), begin, end })
        } else if end > data {
            Some(HeaderFault::CutShort { end, data })
        } else {
            None
        }
    }
}
