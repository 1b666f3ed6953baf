//! What can be wrong with a file that calls itself GGUF, in words that name the key or tensor.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::value::ValueType;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The way out of a file that holds something it should not.
const ANOTHER: &str = "download the file again, or take another conversion of the model";

/// Why a container was refused, or why a key could not be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Any other variant, with the file it happened in.
    #[error("{}: {fault}", path.display())]
    In {
        /// The file that was opened.
        path: PathBuf,
        /// What was wrong with it.
        fault: Box<Error>,
    },
    /// The operating system would not give us the bytes.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// A pipe, a device or a folder.
    #[error("not a regular file; put the file itself (or a link to it) there")]
    NotAFile,
    /// The first four bytes are not `GGUF`.
    #[error(
        "not a GGUF file: expected the bytes \"GGUF\", found {found:02x?}{hint}; give the file its true extension, or download it again"
    )]
    Magic {
        /// The bytes that stand there.
        found: [u8; 4],
        /// What the file may be, empty or beginning with a comma.
        hint: &'static str,
    },
    /// The file was written for a big-endian machine.
    #[error(
        "big-endian GGUF; only little-endian files are read: convert it with `gguf-convert-endian FILE little`, or download the little-endian file"
    )]
    BigEndian,
    /// A container version this crate does not know.
    #[error("GGUF version {found}; versions 2 and 3 are read: convert the model again with a current converter")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// The file ends in the middle of something.
    #[error(
        "{place}: needs {needs} bytes at byte {at}, but the file ends at byte {file_bytes}; the download may be incomplete: download it again"
    )]
    Truncated {
        /// What was being read.
        place: Place,
        /// Where reading stood.
        at: u64,
        /// How many bytes should have followed.
        needs: u64,
        /// The file's size.
        file_bytes: u64,
    },
    /// A count that cannot fit in what is left of the file.
    #[error(
        "{place}: says {count} entries of at least {each_bytes} bytes, but only {left_bytes} bytes of the file follow; {}",
        ANOTHER
    )]
    Count {
        /// What is being counted.
        place: Place,
        /// The count in the file.
        count: u64,
        /// The fewest bytes one entry can take.
        each_bytes: u64,
        /// Bytes left in the file.
        left_bytes: u64,
    },
    /// Metadata and directory together are longer than [`MAX_HEADER_BYTES`](crate::MAX_HEADER_BYTES).
    #[error("{place}: the header would pass {limit} bytes, the most that is read; {}", ANOTHER)]
    HeaderTooLong {
        /// What was being read.
        place: Place,
        /// The limit in bytes.
        limit: u64,
    },
    /// A key or tensor name that is not UTF-8.
    #[error("{place}: not valid UTF-8; {}", ANOTHER)]
    NameNotUtf8 {
        /// Whose name it is.
        place: Place,
    },
    /// A key or tensor name that is too long to be one.
    #[error("{place}: {found} bytes long, at most {limit} are allowed; {}", ANOTHER)]
    NameTooLong {
        /// Whose name it is.
        place: Place,
        /// Its length.
        found: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A metadata value of a type the format does not have.
    #[error("{place}: unknown value type {id}; types 0 to 12 are known; {}", ANOTHER)]
    UnknownValueType {
        /// The key.
        place: Place,
        /// The type number in the file.
        id: u32,
    },
    /// An array of arrays, which no converter writes.
    #[error("{place}: an array of arrays is not read; {}", ANOTHER)]
    NestedArray {
        /// The key.
        place: Place,
    },
    /// The same key twice.
    #[error("key `{key}` appears twice; {}", ANOTHER)]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// `general.alignment` is no alignment.
    #[error("key `general.alignment`: expected a power of two up to {limit}, found {found}; {}", ANOTHER)]
    Alignment {
        /// The value in the file.
        found: u64,
        /// The largest alignment taken.
        limit: u64,
    },
    /// The same tensor name twice.
    #[error("tensor `{tensor}` appears twice; {}", ANOTHER)]
    DuplicateTensor {
        /// Its name.
        tensor: String,
    },
    /// A tensor stored in a type this crate does not know.
    #[error(
        "tensor `{tensor}`: unknown type id {id}; the file needs a newer omlx, or a quantisation that this one reads"
    )]
    UnknownTensorType {
        /// Its name.
        tensor: String,
        /// The type number in the file.
        id: u32,
    },
    /// A shape no tensor can have.
    #[error("tensor `{tensor}`: {count} dimensions, at most {limit} are allowed; {}", ANOTHER)]
    TooManyDims {
        /// Its name.
        tensor: String,
        /// Dimensions in the file.
        count: u32,
        /// The limit.
        limit: u32,
    },
    /// A shape whose size cannot be computed, or is zero.
    #[error("tensor `{tensor}`: shape {dims:?} is empty or larger than any file; {}", ANOTHER)]
    BadShape {
        /// Its name.
        tensor: String,
        /// The shape, outermost first.
        dims: Vec<u64>,
    },
    /// A row that is not a whole number of quantisation blocks.
    #[error("tensor `{tensor}`: rows of {cols} values are not a whole number of {kind} blocks of {block}; {}", ANOTHER)]
    RaggedRow {
        /// Its name.
        tensor: String,
        /// Values in a row.
        cols: u64,
        /// The type's name.
        kind: &'static str,
        /// Values in a block.
        block: usize,
    },
    /// A tensor that does not begin on the file's alignment.
    #[error("tensor `{tensor}`: offset {offset} is not a multiple of the alignment {alignment}; {}", ANOTHER)]
    Misaligned {
        /// Its name.
        tensor: String,
        /// The offset in the file, counted from the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor that reaches beyond the file.
    #[error(
        "tensor `{tensor}`: {bytes} bytes at byte {start} end past the file's {file_bytes} bytes; the download may be incomplete: download it again"
    )]
    PastEnd {
        /// Its name.
        tensor: String,
        /// Where it begins, counted from the start of the file (saturated).
        start: u64,
        /// Its size.
        bytes: u64,
        /// The file's size.
        file_bytes: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensors `{first}` and `{second}` overlap; {}", ANOTHER)]
    Overlap {
        /// The one that begins first.
        first: String,
        /// The one that begins before the first ends.
        second: String,
    },
    /// A key somebody needs is not there.
    #[error("key `{key}` is missing; expected {expected}; {}", ANOTHER)]
    MissingKey {
        /// The key.
        key: String,
        /// The type that was wanted.
        expected: &'static str,
    },
    /// A key is there with a value of another type.
    #[error("key `{key}`: expected {expected}, found {found}; {}", ANOTHER)]
    WrongType {
        /// The key.
        key: String,
        /// The type that was wanted.
        expected: &'static str,
        /// The type that stands there.
        found: Kind,
    },
    /// A key is there with a number that the wanted type cannot hold.
    #[error("key `{key}`: {found} is out of range; expected {expected}; {}", ANOTHER)]
    OutOfRange {
        /// The key.
        key: String,
        /// The type that was wanted.
        expected: &'static str,
        /// The number in the file.
        found: i64,
    },
    /// A text somebody needs was not valid UTF-8 in the file.
    #[error("key `{key}`: the text is not valid UTF-8; {}", ANOTHER)]
    NotUtf8 {
        /// The key.
        key: String,
    },
}

impl Error {
    /// Puts the file's name before what was wrong.
    pub(crate) fn at(self, path: &Path) -> Self {
        Self::In { path: path.to_owned(), fault: Box::new(self) }
    }

    /// What was wrong, without the file's name.
    pub fn fault(&self) -> &Self {
        match self {
            Self::In { fault, .. } => fault.fault(),
            other => other,
        }
    }
}

/// What a value turned out to be: a single value or an array of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One value.
    One(ValueType),
    /// An array of values.
    ArrayOf(ValueType),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(kind) => f.write_str(kind.name()),
            Self::ArrayOf(kind) => write!(f, "array of {}", kind.name()),
        }
    }
}

/// Where in the header something went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The fixed fields at the front.
    Front,
    /// The list of metadata pairs.
    Pairs,
    /// The name of the n-th key.
    Key(u64),
    /// The value of a key.
    Value(String),
    /// The list of tensors.
    Tensors,
    /// The name of the n-th tensor.
    TensorName(u64),
    /// The shape, type and offset of a tensor.
    Tensor(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Front => f.write_str("header"),
            Self::Pairs => f.write_str("metadata count"),
            Self::Key(n) => write!(f, "name of key {n}"),
            Self::Value(key) => write!(f, "key `{key}`"),
            Self::Tensors => f.write_str("tensor count"),
            Self::TensorName(n) => write!(f, "name of tensor {n}"),
            Self::Tensor(name) => write!(f, "tensor `{name}`"),
        }
    }
}
