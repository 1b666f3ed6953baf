//! Is every shard really here? What a folder's weights are, or which file is missing.
//!
//! The index and the files are compared, neither is believed alone: an index left over from another sharding must not hide a complete model.
//! Of a safetensors file only the header is read, to see that the file is as long as its header says; the loader checks the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

/// The longest index file that is read; the largest models have about 10 MB.
const MAX_INDEX_BYTES: u64 = 64 << 20;
/// The longest safetensors header, the format's own limit.
const MAX_HEADER_BYTES: u64 = 100 << 20;
/// The index file's name.
const INDEX: &str = "model.safetensors.index.json";
/// The unsharded file's name.
const SINGLE: &str = "model.safetensors";

/// The weight files of a complete folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// The files to load, in order of name.
    pub files: Vec<PathBuf>,
    /// What is odd about the folder, though it loads.
    pub warnings: Vec<Warning>,
}

/// Something odd that does not stop a load.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The index names files that are not here, while another complete set is.
    StaleIndex {
        /// A file it names.
        names: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaleIndex { names } => {
                write!(
                    f,
                    "{INDEX} names {names}, which is not here, but another set of shards is complete; that set is used"
                )
            }
        }
    }
}

/// Why a model that stands on disk cannot be served.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Fault {
    /// Files that should be there are not.
    Missing {
        /// Their names.
        files: Vec<String>,
    },
    /// No weight file at all.
    NoWeights,
    /// PyTorch pickles only, which can run code when read.
    OnlyPickle,
    /// No `config.json` beside the weights.
    NoConfig,
    /// A file of no bytes.
    Empty {
        /// Its name.
        file: String,
    },
    /// A file that is shorter or longer than its header says.
    WrongLength {
        /// Its name.
        file: String,
        /// The length its header asks for.
        expected: u64,
        /// Its length.
        found: u64,
    },
    /// A header that is not one.
    BadHeader {
        /// Its name.
        file: String,
    },
    /// An index that cannot be read as one.
    BadIndex {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A GGUF container that is not one, in its own words.
    BadGguf {
        /// What its reader says.
        why: Arc<omlx_gguf::Error>,
    },
    /// One part of a model that was cut into several GGUF files.
    SplitGguf {
        /// The part's name.
        file: String,
    },
    /// The operating system would not let us read it.
    Unreadable {
        /// The file.
        file: String,
        /// What the system says.
        kind: std::io::ErrorKind,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { files } => {
                let shown = files.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
                write!(f, "incomplete: {shown} missing")?;
                if files.len() > 3 {
                    write!(f, " and {} more", files.len() - 3)?;
                }
                f.write_str("; download the model again, what is here is kept")
            }
            Self::NoWeights => f.write_str("incomplete: no .safetensors file; download the model again"),
            Self::OnlyPickle => {
                f.write_str("only PyTorch .bin weights, which are not read; convert them to safetensors")
            }
            Self::NoConfig => f.write_str("incomplete: config.json missing; copy it from the model's repository"),
            Self::Empty { file } => write!(f, "incomplete: {file} is empty; download it again"),
            Self::WrongLength { file, expected, found } => {
                write!(f, "incomplete: {file} should have {expected} bytes, has {found}; download it again")
            }
            Self::BadHeader { file } => {
                write!(f, "{file} is not a safetensors file: its header cannot be read; download it again")
            }
            Self::BadIndex { why } => {
                write!(f, "{INDEX}: {why}; download it again, or remove it if all shards are here")
            }
            Self::BadGguf { why } => write!(f, "{why}"),
            Self::SplitGguf { file } => {
                write!(f, "{file} is one part of a split GGUF; join the parts with `llama-gguf-split --merge`")
            }
            Self::Unreadable { file, kind } => write!(f, "{file} cannot be read: {kind}"),
        }
    }
}

/// Finds the weight files of a Hugging Face folder, or says why it cannot be served.
pub fn check(folder: &Path) -> Result<Weights, Fault> {
    let present = safetensors_in(folder)?;
    if !folder.join("config.json").is_file() {
        return Err(Fault::NoConfig);
    }
    let (names, warnings) = choose(folder, &present)?;
    for name in &names {
        check_length(folder, name)?;
    }
    Ok(Weights { files: names.iter().map(|n| folder.join(n)).collect(), warnings })
}

/// Names of the weight files that stand in a folder; a link that leads nowhere does not stand.
fn safetensors_in(folder: &Path) -> Result<BTreeSet<String>, Fault> {
    let unreadable = |e: std::io::Error| Fault::Unreadable { file: folder.display().to_string(), kind: e.kind() };
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        // a name that is not UTF-8 is not one of ours
        if let Some(name) = name.to_str().filter(|n| n.ends_with(".safetensors"))
            && folder.join(name).is_file()
        {
            names.insert(name.to_owned());
        }
    }
    Ok(names)
}

/// Which of the files are the model, in the order transformers looks: the single file, the index, complete sets of shards.
fn choose(folder: &Path, present: &BTreeSet<String>) -> Result<(Vec<String>, Vec<Warning>), Fault> {
    if present.contains(SINGLE) {
        return Ok((vec![SINGLE.to_owned()], vec![]));
    }
    let sets = sets(present);
    let complete = sets.iter().find(|(_, set)| set.missing().is_empty());
    if let Some(named) = read_index(folder)? {
        let missing: Vec<String> = named.difference(present).cloned().collect();
        return match (missing.first(), complete) {
            (None, _) => Ok((named.into_iter().collect(), vec![])),
            (Some(names), Some((_, set))) => Ok((set.names(), vec![Warning::StaleIndex { names: names.clone() }])),
            (Some(_), None) => Err(Fault::Missing { files: missing }),
        };
    }
    if let Some((_, set)) = complete {
        return Ok((set.names(), vec![]));
    }
    if let Some(set) = sets.values().next() {
        return Err(Fault::Missing { files: set.missing() });
    }
    // weights under names of their own: all of them, but not a second copy in the vendor's own layout
    let own: Vec<String> = present.iter().filter(|n| !n.starts_with("consolidated")).cloned().collect();
    match own.is_empty() {
        false => Ok((own, vec![])),
        true if has_pickle(folder) => Err(Fault::OnlyPickle),
        true => Err(Fault::NoWeights),
    }
}

fn has_pickle(folder: &Path) -> bool {
    ["pytorch_model.bin", "pytorch_model.bin.index.json"].iter().any(|n| folder.join(n).is_file())
}

/// The shards of one sharding, `stem-00001-of-00003.safetensors` and so on.
struct Set {
    stem: String,
    of: u32,
    numbers: BTreeSet<u32>,
}

impl Set {
    fn name(&self, number: u32) -> String {
        format!("{}-{number:05}-of-{:05}.safetensors", self.stem, self.of)
    }

    fn names(&self) -> Vec<String> {
        self.numbers.iter().map(|&n| self.name(n)).collect()
    }

    fn missing(&self) -> Vec<String> {
        (1..=self.of).filter(|n| !self.numbers.contains(n)).map(|n| self.name(n)).collect()
    }
}

/// All shardings that have at least one file here.
fn sets(present: &BTreeSet<String>) -> BTreeMap<(String, u32), Set> {
    let mut sets = BTreeMap::new();
    for name in present {
        if let Some((stem, number, of)) = shard(name.trim_end_matches(".safetensors")) {
            let set = sets.entry((stem.to_owned(), of)).or_insert_with(|| Set {
                stem: stem.to_owned(),
                of,
                numbers: BTreeSet::new(),
            });
            set.numbers.insert(number);
        }
    }
    sets
}

/// Splits `model-00001-of-00003` into stem, number and count.
pub(crate) fn shard(name: &str) -> Option<(&str, u32, u32)> {
    let digits =
        |s: &str| (s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse::<u32>().ok()).flatten();
    let (rest, of) = name.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let (number, of) = (digits(number)?, digits(of)?);
    (1..=of).contains(&number).then_some((stem, number, of))
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files an index names, if there is an index.
fn read_index(folder: &Path) -> Result<Option<BTreeSet<String>>, Fault> {
    let path = folder.join(INDEX);
    let unreadable = |e: std::io::Error| Fault::Unreadable { file: INDEX.to_owned(), kind: e.kind() };
    match fs::metadata(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unreadable(e)),
        Ok(m) if !m.is_file() => return Err(Fault::BadIndex { why: "not a regular file" }),
        Ok(m) if m.len() > MAX_INDEX_BYTES => {
            return Err(Fault::BadIndex { why: "longer than 64 MiB" });
        }
        Ok(_) => {}
    }
    let bytes = fs::read(&path).map_err(unreadable)?;
    // Some editors put a byte order mark before a text.
    let json = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let index: Index =
        serde_json::from_slice(json).map_err(|_| Fault::BadIndex { why: "not JSON with a \"weight_map\" of texts" })?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    if names.is_empty() {
        return Err(Fault::BadIndex { why: "names no file" });
    }
    // an index comes from elsewhere: it may name files of its own folder only
    if names.iter().any(|n| n.contains(['/', '\\', '\0']) || n.starts_with('.')) {
        return Err(Fault::BadIndex { why: "names a file outside its folder" });
    }
    Ok(Some(names))
}

/// Compares a file's length with what its header says.
fn check_length(folder: &Path, name: &str) -> Result<(), Fault> {
    let file = || name.to_owned();
    let unreadable = |e: std::io::Error| Fault::Unreadable { file: file(), kind: e.kind() };
    let opened = File::open(folder.join(name)).map_err(unreadable)?;
    let found = opened.metadata().map_err(unreadable)?.len();
    if found == 0 {
        return Err(Fault::Empty { file: file() });
    }
    if found < 8 {
        return Err(Fault::WrongLength { file: file(), expected: 8, found });
    }
    let mut reader = BufReader::new(opened);
    let mut length = [0; 8];
    reader.read_exact(&mut length).map_err(unreadable)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(Fault::BadHeader { file: file() });
    }
    if header_bytes + 8 > found {
        return Err(Fault::WrongLength { file: file(), expected: header_bytes + 8, found });
    }
    let DataEnd(end) =
        serde_json::from_reader(reader.take(header_bytes)).map_err(|_| Fault::BadHeader { file: file() })?;
    let expected = (8 + header_bytes).saturating_add(end);
    if expected == found { Ok(()) } else { Err(Fault::WrongLength { file: file(), expected, found }) }
}

/// The largest end of any tensor in a safetensors header; everything else in it is passed over.
struct DataEnd(u64);

#[derive(Deserialize)]
struct Offsets {
    data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for DataEnd {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = DataEnd;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DataEnd, A::Error> {
                let mut end = 0;
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        end = end.max(map.next_value::<Offsets>()?.data_offsets.1);
                    }
                }
                Ok(DataEnd(end))
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}

/// Reads a GGUF file's header, or says why it cannot be served.
pub(crate) fn check_gguf(path: &Path) -> Result<omlx_gguf::Gguf, Fault> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if shard(name.trim_end_matches(".gguf")).is_some() {
        return Err(Fault::SplitGguf { file: name.into_owned() });
    }
    omlx_gguf::Gguf::open(path).map_err(|e| Fault::BadGguf { why: Arc::new(e) })
}

#[cfg(test)]
mod tests;
