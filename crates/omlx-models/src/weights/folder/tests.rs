//! Field cases MOD-1 (which files) and FILE-1 (offsets), on folders made by hand.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::Folder;
use crate::{Error, HeaderFault};

/// A tensor file of one f32 vector per name.
fn shard(dir: &Path, file: &str, tensors: &[&str]) {
    let mut header = serde_json::Map::new();
    for (i, name) in tensors.iter().enumerate() {
        header.insert((*name).into(), json!({"dtype": "F32", "shape": [2], "data_offsets": [8 * i, 8 * i + 8]}));
    }
    fs::write(dir.join(file), bytes(&header.into(), 8 * tensors.len())).unwrap();
}

fn bytes(header: &Value, data: usize) -> Vec<u8> {
    let header = header.to_string().into_bytes();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.resize(file.len() + data, 0);
    file
}

fn index(dir: &Path, pairs: &[(&str, &str)]) {
    let map: serde_json::Map<_, _> = pairs.iter().map(|(t, f)| ((*t).into(), (*f).into())).collect();
    fs::write(dir.join("model.safetensors.index.json"), json!({ "weight_map": map }).to_string()).unwrap();
}

fn n_of(n: usize, of: usize) -> String {
    format!("model-{n:05}-of-{of:05}.safetensors")
}

fn missing(dir: &TempDir, expected: &str) {
    match Folder::open(dir.path()) {
        Err(Error::MissingShard { shard, .. }) => assert_eq!(shard, expected),
        other => panic!("{other:?}"),
    }
}

fn empty(dir: &TempDir, expected: &str) {
    match Folder::open(dir.path()) {
        Err(Error::Empty { file }) => assert!(file.ends_with(expected), "{}", file.display()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shard_of_the_index_is_absent() {
    let dir = TempDir::new().unwrap();
    index(dir.path(), &[("a", &n_of(1, 3)), ("b", &n_of(2, 3)), ("c", &n_of(3, 3))]);
    shard(dir.path(), &n_of(1, 3), &["a"]);
    shard(dir.path(), &n_of(3, 3), &["c"]);
    missing(&dir, &n_of(2, 3));
}

#[test]
fn a_stale_index_beside_a_complete_set_loads_with_a_warning() {
    let dir = TempDir::new().unwrap();
    index(dir.path(), &[("a", &n_of(1, 4)), ("b", &n_of(4, 4))]);
    shard(dir.path(), &n_of(1, 2), &["a"]);
    shard(dir.path(), &n_of(2, 2), &["b"]);
    let folder = Folder::open(dir.path()).unwrap();
    assert_eq!(folder.names().collect::<Vec<_>>(), ["a", "b"]);
    let warning = folder.warnings()[0].to_string();
    assert!(warning.contains(&n_of(1, 4)) && warning.contains(&n_of(1, 2)), "{warning}");
}

#[test]
fn an_index_without_weights() {
    let dir = TempDir::new().unwrap();
    index(dir.path(), &[("a", &n_of(1, 1))]);
    missing(&dir, &n_of(1, 1));
}

#[test]
fn no_index_and_a_number_missing() {
    let dir = TempDir::new().unwrap();
    shard(dir.path(), &n_of(1, 3), &["a"]);
    shard(dir.path(), &n_of(3, 3), &["c"]);
    missing(&dir, &n_of(2, 3));
}

#[test]
fn no_index_and_a_complete_set() {
    let dir = TempDir::new().unwrap();
    shard(dir.path(), &n_of(2, 2), &["b"]);
    shard(dir.path(), &n_of(1, 2), &["a"]);
    assert_eq!(Folder::open(dir.path()).unwrap().names().count(), 2);
}

#[test]
fn the_index_lists_a_tensor_that_its_shard_does_not_hold() {
    let dir = TempDir::new().unwrap();
    index(dir.path(), &[("a", &n_of(1, 2)), ("b", &n_of(2, 2)), ("c", &n_of(2, 2))]);
    shard(dir.path(), &n_of(1, 2), &["a", "c"]);
    shard(dir.path(), &n_of(2, 2), &["b"]);
    match Folder::open(dir.path()) {
        Err(Error::Index { tensor, shard, other, .. }) => {
            assert_eq!((tensor.as_str(), shard, other), ("c", n_of(2, 2), Some(n_of(1, 2))));
        }
        other => panic!("{other:?}"),
    }
    index(dir.path(), &[("a", &n_of(1, 2)), ("b", &n_of(2, 2)), ("ghost", &n_of(2, 2))]);
    let said = Folder::open(dir.path()).unwrap_err().to_string();
    for part in ["index.json", &n_of(2, 2), "tensor ghost, which no file holds", "download the index"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}

#[test]
fn empty_files_are_told() {
    let dir = TempDir::new().unwrap();
    index(dir.path(), &[("a", &n_of(1, 2)), ("b", &n_of(2, 2))]);
    shard(dir.path(), &n_of(1, 2), &["a"]);
    fs::write(dir.path().join(n_of(2, 2)), "").unwrap();
    empty(&dir, &n_of(2, 2));

    let single = TempDir::new().unwrap();
    fs::write(single.path().join("model.safetensors"), "").unwrap();
    empty(&single, "model.safetensors");
}

#[test]
fn no_tensor_file_at_all() {
    let dir = TempDir::new().unwrap();
    assert!(matches!(Folder::open(dir.path()), Err(Error::NoWeights { .. })));
}

#[test]
fn an_index_does_not_reach_out_of_its_folder() {
    let dir = TempDir::new().unwrap();
    index(dir.path(), &[("a", "../secret.safetensors")]);
    let error = Folder::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("weight_map.a"), "{error}");
}

#[test]
fn the_same_tensor_in_two_shards() {
    let dir = TempDir::new().unwrap();
    shard(dir.path(), &n_of(1, 2), &["a"]);
    shard(dir.path(), &n_of(2, 2), &["a"]);
    assert!(matches!(Folder::open(dir.path()), Err(Error::DuplicateTensor { .. })));
}

/// The fault that a file of this header and this much data is refused for, and the tensor that is named.
fn refused(header: &Value, data: usize) -> (Option<String>, HeaderFault) {
    refused_bytes(&bytes(header, data))
}

fn refused_bytes(bytes: &[u8]) -> (Option<String>, HeaderFault) {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
    match Folder::open(dir.path()) {
        Err(Error::Safetensors { file, tensor, fault }) => {
            assert!(file.ends_with("model.safetensors"));
            (tensor, *fault)
        }
        other => panic!("{other:?}"),
    }
}

fn entry(shape: &[u64], begin: i64, end: i64) -> Value {
    json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, end]})
}

#[test]
fn offsets_are_checked() {
    type Case = (&'static str, Value, usize, Option<&'static str>, fn(&HeaderFault) -> bool);
    let cases: [Case; 10] = [
        ("overlap", json!({"a": entry(&[2], 0, 8), "b": entry(&[2], 4, 12)}), 12, Some("b"), |f| {
            matches!(f, HeaderFault::Overlap { begin: 4, end: 8 })
        }),
        ("hole", json!({"a": entry(&[2], 0, 8), "b": entry(&[2], 12, 20)}), 20, Some("b"), |f| {
            matches!(f, HeaderFault::Hole { begin: 12, end: 8 })
        }),
        ("trailing", json!({"a": entry(&[2], 0, 8)}), 12, None, |f| matches!(f, HeaderFault::Trailing { bytes: 4 })),
        ("cut", json!({"a": entry(&[2], 0, 8), "b": entry(&[2], 8, 16)}), 12, Some("b"), |f| {
            matches!(f, HeaderFault::CutShort { end: 16, data: 12 })
        }),
        ("shape", json!({"a": entry(&[1000, 1000], 0, 4)}), 4, Some("a"), |f| matches!(f, HeaderFault::Span { .. })),
        ("reversed", json!({"a": entry(&[2], 0, 8), "b": entry(&[2], 8, 0)}), 8, Some("b"), |f| {
            matches!(f, HeaderFault::Span { .. })
        }),
        ("overflow", json!({"a": entry(&[1 << 40, 1 << 40], 0, 4)}), 4, Some("a"), |f| {
            matches!(f, HeaderFault::Span { .. })
        }),
        ("one offset", json!({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}), 4, Some("a"), |f| {
            matches!(f, HeaderFault::Entry(_))
        }),
        ("negative", json!({"a": entry(&[1], -4, 0)}), 4, Some("a"), |f| matches!(f, HeaderFault::Entry(_))),
        ("list", json!([1, 2]), 4, None, |f| matches!(f, HeaderFault::NotJson(_))),
    ];
    for (name, header, data, tensor, is) in cases {
        let (named, fault) = refused(&header, data);
        assert_eq!(named.as_deref(), tensor, "{name}: {fault}");
        assert!(is(&fault), "{name}: {fault:?}");
    }
}

#[test]
fn header_lengths_are_checked() {
    assert!(matches!(refused_bytes(&[1, 2, 3]).1, HeaderFault::TooShort { bytes: 3 }));
    let mut long = 1000u64.to_le_bytes().to_vec();
    long.extend(b"{}");
    assert!(matches!(refused_bytes(&long).1, HeaderFault::HeaderLength { header: 1000, bytes: 10 }));
    let mut absurd = u64::MAX.to_le_bytes().to_vec();
    absurd.extend(b"{}");
    assert!(matches!(refused_bytes(&absurd).1, HeaderFault::HeaderLength { .. }));
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let dir = TempDir::new().unwrap();
    let header = json!({"b": entry(&[2], 8, 16), "__metadata__": {"format": "pt"}, "a": entry(&[2], 0, 8)});
    fs::write(dir.path().join("model.safetensors"), bytes(&header, 16)).unwrap();
    assert_eq!(Folder::open(dir.path()).unwrap().floats("b", &[2], None).unwrap(), [0.0, 0.0]);
}

#[test]
fn shape_and_dtype_errors_name_the_tensor() {
    let dir = TempDir::new().unwrap();
    let header = json!({"a": entry(&[2], 0, 8), "i": {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]}});
    fs::write(dir.path().join("model.safetensors"), bytes(&header, 16)).unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let shape = folder.floats("a", &[3], None).unwrap_err().to_string();
    assert!(shape.contains("a: expected [3], file has [2]"), "{shape}");
    let dtype = folder.floats("i", &[1], None).unwrap_err().to_string();
    assert!(dtype.contains("i is stored as I64; loadable are F32, BF16, F16"), "{dtype}");
    assert!(matches!(folder.floats("x", &[1], None), Err(Error::MissingTensor { .. })));
}
