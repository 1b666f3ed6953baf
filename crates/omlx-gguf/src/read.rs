//! From the bytes of a header to a [`Gguf`].

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Place, Result};
use crate::kind::GgmlType;
use crate::source::Source;
use crate::tensor::{TensorInfo, refuse_overlap};
use crate::value::{Array, Strings, Value, ValueType};

/// The longest key or tensor name that is read, in bytes; the format's own limit for keys.
pub const MAX_NAME_BYTES: u64 = 65_535;
/// The most dimensions a tensor may have.
pub const MAX_DIMS: u32 = 4;
/// The longest header (metadata and directory) that is read. The largest vocabularies need about 15 MB.
pub const MAX_HEADER_BYTES: u64 = 256 << 20;
/// The largest `general.alignment` that is taken; files use 32, a few 64 or a page.
const MAX_ALIGNMENT: u64 = 1 << 20;
/// What a file without `general.alignment` uses.
const DEFAULT_ALIGNMENT: u64 = 32;

/// A container's metadata and tensor directory.
#[derive(Debug, Clone)]
pub struct Gguf {
    /// The container's version, 2 or 3.
    pub version: u32,
    pub(crate) pairs: BTreeMap<String, Pair>,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
}

/// A metadata value, and whether bytes of it had to be replaced to make it text.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) value: Value,
    pub(crate) lossy: bool,
}

impl Gguf {
    /// Reads the header of a file. Errors begin with its path.
    pub fn open(path: &Path) -> Result<Self> {
        let read = || {
            // Before opening: opening a pipe waits for who writes to it.
            if !std::fs::metadata(path)?.is_file() {
                return Err(Error::NotAFile);
            }
            let file = File::open(path)?;
            let file_bytes = file.metadata()?.len();
            Self::read(file, file_bytes)
        };
        read().map_err(|e| e.at(path))
    }

    /// Reads a header from the start of `reader`, whose whole length is `file_bytes`.
    pub fn read<R: Read>(reader: R, file_bytes: u64) -> Result<Self> {
        let mut source = Source::new(reader, file_bytes, MAX_HEADER_BYTES);
        let version = front(&mut source)?;
        source.enter(Place::Tensors);
        // name length, dimension count, type, offset
        let tensor_count = source.count(8 + 4 + 4 + 8)?;
        source.enter(Place::Pairs);
        // key length, type, and at least one byte of value
        let pair_count = source.count(8 + 4 + 1)?;
        let pairs = pairs(&mut source, pair_count)?;
        let mut tensors = directory(&mut source, tensor_count)?;

        let alignment = alignment(&pairs)?;
        // at most MAX_HEADER_BYTES + MAX_ALIGNMENT: no overflow
        let data_start = source.at().next_multiple_of(alignment);
        for tensor in &mut tensors {
            tensor.place(data_start, alignment, file_bytes)?;
        }
        refuse_overlap(&tensors)?;
        let by_name = tensors.iter().enumerate().map(|(n, t)| (t.name.clone(), n)).collect();
        Ok(Self { version, pairs, tensors, by_name })
    }

    /// All tensors, in the file's order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> + '_ {
        self.tensors.iter()
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&n| &self.tensors[n])
    }
}

/// Magic and version.
fn front<R: Read>(source: &mut Source<R>) -> Result<u32> {
    let found: [u8; 4] = source.bytes()?;
    match &found {
        b"GGUF" => {}
        b"FUGG" => return Err(Error::BigEndian),
        _ => {
            return Err(Error::Magic { found, hint: foreign(&found, source) });
        }
    }
    match source.u32()? {
        version @ (2 | 3) => Ok(version),
        // a small number whose bytes stand the other way round
        swapped if (1..=255).contains(&swapped.swap_bytes()) => Err(Error::BigEndian),
        found => Err(Error::Version { found }),
    }
}

/// A guess at what a file without our magic is.
fn foreign<R: Read>(found: &[u8; 4], source: &mut Source<R>) -> &'static str {
    match found {
        b"PK\x03\x04" => ", which begins a zip archive or a PyTorch file",
        b"ggml" | b"ggjt" | b"lmgg" | b"tjgg" => ", which begins a GGML file from before GGUF",
        b"vers" => ", which begins a Git LFS pointer, not the file itself",
        _ => match source.bytes::<5>() {
            Ok([.., b'{']) => ", which looks like a safetensors file",
            _ => "",
        },
    }
}

/// All metadata pairs.
fn pairs<R: Read>(source: &mut Source<R>, count: usize) -> Result<BTreeMap<String, Pair>> {
    let mut out = BTreeMap::new();
    for n in 0..count {
        source.enter(Place::Key(n as u64));
        let key = source.name(MAX_NAME_BYTES)?;
        source.enter(Place::Value(key.clone()));
        let pair = pair(source)?;
        if out.insert(key.clone(), pair).is_some() {
            return Err(Error::DuplicateKey { key });
        }
    }
    Ok(out)
}

/// The type number of a value.
fn value_type<R: Read>(source: &mut Source<R>) -> Result<ValueType> {
    let id = source.u32()?;
    ValueType::from_id(id).ok_or_else(|| Error::UnknownValueType { place: source.place(), id })
}

/// A type and a value of it.
fn pair<R: Read>(source: &mut Source<R>) -> Result<Pair> {
    let mut lossy = false;
    let value = match value_type(source)? {
        ValueType::U8 => Value::U8(u8::from_le_bytes(source.bytes()?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(source.bytes()?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(source.bytes()?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(source.bytes()?)),
        ValueType::U32 => Value::U32(source.u32()?),
        ValueType::I32 => Value::I32(i32::from_le_bytes(source.bytes()?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(source.bytes()?)),
        ValueType::Bool => Value::Bool(source.bytes::<1>()? != [0]),
        ValueType::String => {
            let mut bytes = Vec::new();
            source.text(&mut bytes)?;
            Value::String(String::from_utf8(bytes).unwrap_or_else(|e| {
                lossy = true;
                String::from_utf8_lossy(e.as_bytes()).into_owned()
            }))
        }
        ValueType::Array => Value::Array(array(source)?),
        ValueType::U64 => Value::U64(source.u64()?),
        ValueType::I64 => Value::I64(i64::from_le_bytes(source.bytes()?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(source.bytes()?)),
    };
    Ok(Pair { value, lossy })
}

/// An entry type, a count and that many entries.
fn array<R: Read>(source: &mut Source<R>) -> Result<Array> {
    Ok(match value_type(source)? {
        ValueType::U8 => Array::U8(numbers(source, u8::from_le_bytes)?),
        ValueType::I8 => Array::I8(numbers(source, i8::from_le_bytes)?),
        ValueType::U16 => Array::U16(numbers(source, u16::from_le_bytes)?),
        ValueType::I16 => Array::I16(numbers(source, i16::from_le_bytes)?),
        ValueType::U32 => Array::U32(numbers(source, u32::from_le_bytes)?),
        ValueType::I32 => Array::I32(numbers(source, i32::from_le_bytes)?),
        ValueType::F32 => Array::F32(numbers(source, f32::from_le_bytes)?),
        ValueType::Bool => Array::Bool(numbers(source, |b: [u8; 1]| b != [0])?),
        ValueType::String => Array::Strings(strings(source)?),
        ValueType::Array => {
            return Err(Error::NestedArray { place: source.place() });
        }
        ValueType::U64 => Array::U64(numbers(source, u64::from_le_bytes)?),
        ValueType::I64 => Array::I64(numbers(source, i64::from_le_bytes)?),
        ValueType::F64 => Array::F64(numbers(source, f64::from_le_bytes)?),
    })
}

/// A count and that many numbers.
fn numbers<R: Read, T, const N: usize>(source: &mut Source<R>, number: fn([u8; N]) -> T) -> Result<Vec<T>> {
    let count = source.count(N as u64)?;
    source.numbers(count, number)
}

/// A count and that many texts.
fn strings<R: Read>(source: &mut Source<R>) -> Result<Strings> {
    // each text has at least its length, eight bytes, which is also what an entry takes in memory
    let count = source.count(8)?;
    let mut out = Strings::with_capacity(count);
    let mut entry = Vec::new();
    for _ in 0..count {
        source.text(&mut entry)?;
        out.push(&entry);
    }
    Ok(out)
}

/// All directory entries; offsets are still counted from the data section.
fn directory<R: Read>(source: &mut Source<R>, count: usize) -> Result<Vec<TensorInfo>> {
    let mut out = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for n in 0..count {
        source.enter(Place::TensorName(n as u64));
        let tensor = source.name(MAX_NAME_BYTES)?;
        source.enter(Place::Tensor(tensor.clone()));
        let dim_count = source.u32()?;
        if dim_count > MAX_DIMS {
            return Err(Error::TooManyDims { tensor, count: dim_count, limit: MAX_DIMS });
        }
        let mut dims = source.numbers(dim_count as usize, u64::from_le_bytes)?;
        // the file has the innermost dimension first
        dims.reverse();
        let id = source.u32()?;
        let offset = source.u64()?;
        let Some(kind) = GgmlType::from_id(id) else {
            return Err(Error::UnknownTensorType { tensor, id });
        };
        if !seen.insert(tensor.clone()) {
            return Err(Error::DuplicateTensor { tensor });
        }
        out.push(TensorInfo::new(tensor, &dims, kind, offset)?);
    }
    Ok(out)
}

/// `general.alignment`, or what a file without it uses.
fn alignment(pairs: &BTreeMap<String, Pair>) -> Result<u64> {
    let Some(pair) = pairs.get("general.alignment") else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let found = match pair.value {
        Value::U32(n) => n.into(),
        Value::U64(n) => n,
        ref other => return Err(crate::get::wrong_type("general.alignment", "u32", other)),
    };
    if found.is_power_of_two() && found <= MAX_ALIGNMENT {
        Ok(found)
    } else {
        Err(Error::Alignment { found, limit: MAX_ALIGNMENT })
    }
}
