//! Which files of a folder make up the model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value};

use crate::{Error, Result, Warning, files};

const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// The files of a model, in order.
pub(super) struct Found {
    pub(super) files: Vec<String>,
    /// Tensors and the files that hold them, as the index says; empty without one, or when it is stale.
    pub(super) index: Vec<(String, String)>,
    pub(super) warning: Option<Warning>,
}

/// Finds them, as transformers does: one file before an index, an index before bare shards.
pub(super) fn find(folder: &Path) -> Result<Found> {
    let present = list(folder)?;
    let just = |files: Vec<String>| Found { files, index: Vec::new(), warning: None };
    if present.get(SINGLE).is_some_and(|bytes| *bytes > 0) {
        return Ok(just(vec![SINGLE.into()]));
    }
    if folder.join(INDEX).exists() {
        return by_index(folder, &present);
    }
    if let Some(set) = complete(&present) {
        return Ok(just(set));
    }
    if let Some(shard) = present.keys().find_map(|name| first_absent(name, &present)) {
        return Err(missing(folder, &present, shard, "the numbers of the other shards"));
    }
    match present.first_key_value() {
        None => Err(Error::NoWeights { folder: folder.to_owned() }),
        Some((name, 0)) => Err(Error::Empty { file: folder.join(name) }),
        // Somebody's own name for a single file; with several, nothing says which of them are the model.
        Some((name, _)) if present.len() == 1 => Ok(just(vec![name.clone()])),
        Some(_) => Err(missing(folder, &present, SINGLE.into(), "the layout of model folders")),
    }
}

/// A file that is not there, or has no bytes.
fn missing(folder: &Path, present: &BTreeMap<String, u64>, shard: String, named_by: &str) -> Error {
    if present.contains_key(&shard) {
        return Error::Empty { file: folder.join(shard) };
    }
    Error::MissingShard { folder: folder.to_owned(), shard, named_by: named_by.into() }
}

/// Tensor files and their sizes.
fn list(folder: &Path) -> Result<BTreeMap<String, u64>> {
    let io = |source| Error::Io { file: folder.to_owned(), source };
    let mut present = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // A hidden file is a download under way or another system's shadow, never a part of the model.
        if !name.ends_with(".safetensors") || name.starts_with('.') {
            continue;
        }
        // Not the entry's own: the files of a hub cache are links. A link to nothing counts as absent.
        if let Ok(meta) = std::fs::metadata(entry.path()) {
            if !meta.is_file() {
                return Err(Error::NotAFile { file: entry.path() });
            }
            present.insert(name, meta.len());
        }
    }
    Ok(present)
}

fn by_index(folder: &Path, present: &BTreeMap<String, u64>) -> Result<Found> {
    let index = read_index(&folder.join(INDEX))?;
    let named: BTreeSet<&String> = index.iter().map(|(_, file)| file).collect();
    let absent = named.iter().find(|name| present.get(**name).is_none_or(|bytes| *bytes == 0));
    let Some(absent) = absent.map(|name| name.to_string()) else {
        return Ok(Found { files: named.into_iter().cloned().collect(), index, warning: None });
    };
    // The index may be from another sharding than the files. A set that is complete by its own numbers is the model.
    match complete(present) {
        Some(files) => {
            let warning = Warning::StaleIndex { index: INDEX.into(), named: absent, used: files[0].clone() };
            Ok(Found { files, index: Vec::new(), warning: Some(warning) })
        }
        None => Err(missing(folder, present, absent, INDEX)),
    }
}

fn read_index(file: &Path) -> Result<Vec<(String, String)>> {
    let bad = |key: &str, found: String, expected: &str| Error::BadValue {
        file: file.to_owned(),
        key: key.into(),
        found,
        expected: expected.into(),
    };
    let bytes = files::read_json(file, files::MAX_INDEX_BYTES)?;
    let json: Map<String, Value> =
        serde_json::from_slice(&bytes).map_err(|source| Error::Json { file: file.to_owned(), source })?;
    let Some(map) = json.get("weight_map") else {
        return Err(Error::MissingKey { file: file.to_owned(), key: "weight_map".into() });
    };
    let map = map.as_object().ok_or_else(|| bad("weight_map", map.to_string(), "an object"))?;
    let entry = |(tensor, name): (&String, &Value)| match name.as_str() {
        // A name and no path: an index must not reach out of its folder.
        Some(name) if !name.contains(['/', '\\']) => Ok((tensor.clone(), name.to_owned())),
        _ => Err(bad(&format!("weight_map.{tensor}"), name.to_string(), "a file name")),
    };
    map.iter().map(entry).collect()
}

/// `STEM-00002-of-00005.safetensors` as stem, number, how many, and digits.
fn parse(name: &str) -> Option<(&str, usize, usize, usize)> {
    let (rest, of) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    (digits(number) && digits(of)).then_some(())?;
    Some((stem, number.parse().ok()?, of.parse().ok()?, of.len()))
}

fn siblings(name: &str) -> Option<impl Iterator<Item = String> + '_> {
    let (stem, _, count, digits) = parse(name)?;
    Some((1..=count).map(move |n| format!("{stem}-{n:0digits$}-of-{count:0digits$}.safetensors")))
}

fn first_absent(name: &str, present: &BTreeMap<String, u64>) -> Option<String> {
    siblings(name)?.find(|name| present.get(name).is_none_or(|bytes| *bytes == 0))
}

/// A set of shards that has every number up to its count.
fn complete(present: &BTreeMap<String, u64>) -> Option<Vec<String>> {
    let whole = |name: &&String| parse(name).is_some() && first_absent(name, present).is_none();
    present.keys().find(whole).and_then(|name| siblings(name)).map(Iterator::collect)
}
