//! What can be wrong with a model somebody wants to load, said so that they can mend it.
//!
//! Every variant names the file, the key or tensor, what was expected and found, and where there is one the way out.
//! A fault in the arithmetic of a running model is not here: `Model::forward` returns candle's own error.

use std::path::{Path, PathBuf};

use candle_core::DType;

/// Result of loading a model.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("{}: {source}", file.display())]
    Io {
        /// What was to be read.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A pipe, a device or a folder where a file should be.
    #[error("{}: not a regular file; put the file itself (or a link to it) there", file.display())]
    NotAFile {
        /// What was to be read.
        file: PathBuf,
    },
    /// A file of no bytes.
    #[error("{}: empty; the download was not finished: download it again", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// A file longer than any of its kind.
    #[error("{}: longer than {limit} bytes, which no such file is; fetch the file again", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// Neither a model folder nor a GGUF file.
    #[error("{}: neither a folder with a config.json nor a .gguf file; give the folder that holds config.json", path.display())]
    NotAModel {
        /// What was given.
        path: PathBuf,
    },
    /// A JSON file that is not JSON, or not an object.
    #[error("{}: not a JSON object: {source}; fetch the file again", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// A key without which the model cannot be understood.
    #[error("{}: needs the key `{key}`, which is absent; {}", file.display(), way_out(file, SOURCE))]
    MissingKey {
        /// The file.
        file: PathBuf,
        /// The key, with its parents.
        key: String,
    },
    /// A key holds something of another type or outside its range.
    #[error("{}: `{key}` is {found}, expected {expected}; {}", file.display(), way_out(file, SOURCE))]
    BadValue {
        /// The file.
        file: PathBuf,
        /// The key, with its parents.
        key: String,
        /// What the file says.
        found: String,
        /// What it may say.
        expected: String,
    },
    /// A value whose meaning is not known here; guessing would give quietly wrong text.
    #[error("{}: `{key}` is \"{found}\", which omlx does not know; known: {}; take a model that is one of these", file.display(), known.join(", "))]
    Unknown {
        /// The file.
        file: PathBuf,
        /// The key, with its parents.
        key: String,
        /// What the file says.
        found: String,
        /// What it could say.
        known: Vec<&'static str>,
    },
    /// A folder with a config but no tensor file.
    #[error("{}: no *.safetensors file; the model is not, or not completely, downloaded", folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
    },
    /// One of the files of a sharded model is absent.
    #[error("{}: incomplete, missing {shard} (named by {named_by}); download it again", folder.display())]
    MissingShard {
        /// The folder.
        folder: PathBuf,
        /// The absent file.
        shard: String,
        /// Where its name comes from.
        named_by: String,
    },
    /// A tensor file whose header and data disagree.
    #[error("{}: {}{fault}; the file is damaged or cut short: fetch it again", file.display(), tensor.as_ref().map(|t| format!("tensor {t}: ")).unwrap_or_default())]
    Safetensors {
        /// The file.
        file: PathBuf,
        /// The tensor at fault, when it is one.
        tensor: Option<String>,
        /// What is wrong.
        fault: Box<HeaderFault>,
    },
    /// The model needs a tensor that no file holds.
    #[error("{}: no tensor {tensor}; {}", file.display(), way_out(file, OTHER_MODEL))]
    MissingTensor {
        /// Folder or file that should hold it.
        file: PathBuf,
        /// Its name.
        tensor: String,
    },
    /// The index and the file it names disagree.
    #[error("{}: says that {shard} holds tensor {tensor}, which {}; download the index and its shards again", index.display(), other.as_ref().map_or_else(|| "no file holds".to_owned(), |other| format!("is in {other}")))]
    Index {
        /// The index.
        index: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// The file that should hold it.
        shard: String,
        /// The file that holds it, if one does.
        other: Option<String>,
    },
    /// Two shards hold a tensor of the same name.
    #[error("{}: tensor {tensor} is also in {other}; keep one set of shards in the folder", file.display())]
    DuplicateTensor {
        /// The second file.
        file: PathBuf,
        /// The first file.
        other: String,
        /// Its name.
        tensor: String,
    },
    /// A tensor's shape does not fit the config.
    #[error("{}: {tensor}: expected {expected:?}, file has {found:?}; {}", file.display(), way_out(file, OTHER_SIZE))]
    Shape {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// What the config asks for.
        expected: Vec<usize>,
        /// What the file holds.
        found: Vec<usize>,
    },
    /// A tensor stored in a type that cannot be loaded.
    #[error("{}: {tensor} is stored as {found}; loadable are {}: take the model stored as one of them", file.display(), known.join(", "))]
    Dtype {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: String,
        /// The types that load.
        known: Vec<&'static str>,
    },
    /// A packed matrix whose rows are no whole groups.
    #[error("{}: {tensor}: {found}, which is no whole number; is config.json from another conversion of the model?", file.display())]
    Packing {
        /// The file or folder.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// What does not fit.
        found: String,
    },
    /// Tensors that the described model has no place for: leaving them out would change the answers.
    #[error("{}: {count} tensor(s) that a model of type {model_type} has no place for, the first is {first}; {}", file.display(), way_out(file, OTHER_MODEL))]
    Leftover {
        /// The file or folder.
        file: PathBuf,
        /// The first of them by name.
        first: String,
        /// How many.
        count: usize,
        /// The model type in the config.
        model_type: &'static str,
    },
    /// The GGUF container itself is at fault.
    #[error(transparent)]
    Gguf(Box<omlx_gguf::Error>),
    /// A rotary embedding that cannot be built from the config's values.
    #[error("{}: rotary embedding: {source}; {}", file.display(), way_out(file, SOURCE))]
    Rope {
        /// The file.
        file: PathBuf,
        /// What is wrong with the values.
        source: Box<omlx_ops::Error>,
    },
    /// Keys and values cannot be stored in this type.
    #[error("keys and values cannot be stored as {found:?}; use f32, f16 or bf16")]
    KvDtype {
        /// What was asked for.
        found: DType,
    },
    /// The device refused, most likely for lack of memory.
    #[error("{tensor}: {source}")]
    Device {
        /// The tensor that was being placed.
        tensor: String,
        /// What the device says.
        source: Box<omlx_ops::Error>,
    },
}

// Ways out: of a folder, whose config.json is a file of its own, and of a GGUF file.
const SOURCE: [&str; 2] = ["take config.json from the model's publisher", "take another conversion of the model"];
const OTHER_MODEL: [&str; 2] = ["is config.json from another model?", "its metadata describes another model"];
const OTHER_SIZE: [&str; 2] =
    ["is config.json from a different size of the model?", "its metadata describes a different size of the model"];

fn way_out(file: &Path, [folder, gguf]: [&'static str; 2]) -> &'static str {
    if file.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf")) { gguf } else { folder }
}

/// What is wrong with a safetensors header.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// Not even a header length.
    #[error("{bytes} bytes, too few for a header")]
    TooShort {
        /// Size of the file.
        bytes: usize,
    },
    /// The header length points past the end of the file, or is absurd.
    #[error("says its header has {header} bytes, the file has {bytes}")]
    HeaderLength {
        /// What the file says.
        header: u64,
        /// Size of the file.
        bytes: usize,
    },
    /// The header is not a JSON object of tensors.
    #[error("header is not a JSON object: {0}")]
    NotJson(serde_json::Error),
    /// An entry lacks dtype, shape or two offsets, or they are not numbers.
    #[error("its entry is not {{dtype, shape, data_offsets: [begin, end]}}: {0}")]
    Entry(serde_json::Error),
    /// Bytes shared with the tensor before it.
    #[error("begins at byte {begin}, inside the tensor before it, which ends at {end}")]
    Overlap {
        /// Where it begins.
        begin: usize,
        /// Where the one before it ends.
        end: usize,
    },
    /// Bytes that belong to no tensor.
    #[error("begins at byte {begin}, but the tensor before it ends at {end}: a hole")]
    Hole {
        /// Where it begins.
        begin: usize,
        /// Where the one before it ends.
        end: usize,
    },
    /// A type that the format does not have.
    #[error("is of the unknown type {dtype}")]
    Dtype {
        /// Its type.
        dtype: String,
    },
    /// Shape, type and length disagree, or the shape overflows.
    #[error("{dtype} {shape:?} does not fill bytes {begin}..{end}")]
    Span {
        /// Its type.
        dtype: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Where it begins.
        begin: usize,
        /// Where it ends.
        end: usize,
    },
    /// Reaches past the end of the file.
    #[error("ends at byte {end}, the file has {data} bytes of data")]
    CutShort {
        /// Where it ends.
        end: usize,
        /// Bytes of data in the file.
        data: usize,
    },
    /// Bytes after the last tensor.
    #[error("{bytes} bytes after the last tensor")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// Refused by the safetensors library for another reason.
    #[error(transparent)]
    Other(#[from] safetensors::SafeTensorError),
}

impl From<omlx_gguf::Error> for Error {
    fn from(fault: omlx_gguf::Error) -> Self {
        Self::Gguf(Box::new(fault))
    }
}

impl Error {
    /// The device refused to take or fuse a tensor.
    pub(crate) fn device(tensor: &str, source: impl Into<omlx_ops::Error>) -> Self {
        Self::Device { tensor: tensor.to_owned(), source: Box::new(source.into()) }
    }

    /// A metadata key at fault is named by the container, which has forgotten the file's name: it is added.
    pub(crate) fn in_gguf(self, file: &Path) -> Self {
        match self {
            Self::Gguf(fault) if !matches!(*fault, omlx_gguf::Error::In { .. }) => {
                omlx_gguf::Error::In { path: file.to_owned(), fault }.into()
            }
            other => other,
        }
    }
}

/// Something odd about a model that loads all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// The index names other files than the complete set that lies beside it.
    #[error("{index} names {named}, which is absent; loaded the complete set {used} instead")]
    StaleIndex {
        /// The index file.
        index: String,
        /// An absent file it names.
        named: String,
        /// The first file of the set that was loaded.
        used: String,
    },
}
