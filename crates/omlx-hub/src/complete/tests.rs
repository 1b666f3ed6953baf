//! Folders made by hand, one for each way a model can be half here.

use std::fs;
use std::path::Path;

use super::{Fault, Warning, check, shard};

/// Names and contents of a folder's files.
type Files<'a> = &'a [(&'a str, Vec<u8>)];

/// A safetensors file with one tensor of `values` f32.
fn weights(values: usize) -> Vec<u8> {
    let header = format!(
        "{{\"__metadata__\":{{\"format\":\"pt\"}},\"w\":{{\"dtype\":\"F32\",\"shape\":[{values}],\"data_offsets\":[0,{}]}}}}",
        4 * values
    );
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; 4 * values]].concat()
}

fn index(files: &[&str]) -> Vec<u8> {
    let map: Vec<String> = files.iter().enumerate().map(|(n, f)| format!("\"t{n}\":\"{f}\"")).collect();
    format!("{{\"metadata\":{{}},\"weight_map\":{{{}}}}}", map.join(",")).into_bytes()
}

/// Checks a folder with a configuration and these files; answers with its file names, or what is said about it.
fn checked(files: Files<'_>) -> Result<(Vec<String>, Vec<Warning>), String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    let name = |p: &std::path::PathBuf| p.file_name().unwrap().to_str().unwrap().to_owned();
    check(dir.path()).map(|w| (w.files.iter().map(name).collect(), w.warnings)).map_err(|f| f.to_string())
}

const INDEX: &str = "model.safetensors.index.json";
const S1: &str = "model-00001-of-00003.safetensors";
const S2: &str = "model-00002-of-00003.safetensors";
const S3: &str = "model-00003-of-00003.safetensors";
const T1: &str = "model-00001-of-00002.safetensors";
const T2: &str = "model-00002-of-00002.safetensors";

#[test]
fn complete_folders() {
    let whole: &[(Files<'_>, &[&str])] = &[
        (&[("model.safetensors", weights(2))], &["model.safetensors"]),
        (&[(S1, weights(1)), (S2, weights(1)), (S3, weights(1)), (INDEX, index(&[S1, S2, S3]))], &[S1, S2, S3]),
        (&[(T1, weights(1)), (T2, weights(1))], &[T1, T2]),
        (&[("weights.safetensors", weights(1)), ("consolidated.safetensors", weights(1))], &["weights.safetensors"]),
        // the single file is what transformers takes first
        (&[("model.safetensors", weights(1)), (INDEX, index(&[S1, S2, S3]))], &["model.safetensors"]),
        (
            &[("a.safetensors", weights(1)), ("b.safetensors", weights(1)), (INDEX, index(&["a.safetensors"]))],
            &["a.safetensors"],
        ),
    ];
    for (files, expected) in whole {
        let (names, warnings) = checked(files).unwrap();
        assert_eq!(names, *expected);
        assert_eq!(warnings, []);
    }
}

#[test]
fn an_index_names_three_and_two_are_here() {
    let said = checked(&[(S1, weights(1)), (S3, weights(1)), (INDEX, index(&[S1, S2, S3]))]).unwrap_err();
    assert!(said.contains(&format!("incomplete: {S2} missing")), "{said}");
}

#[test]
fn a_stale_index_does_not_hide_a_complete_set() {
    let stale = index(&["model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors"]);
    let (names, warnings) = checked(&[(T1, weights(1)), (T2, weights(1)), (INDEX, stale)]).unwrap();
    assert_eq!(names, [T1, T2]);
    assert_eq!(warnings, [Warning::StaleIndex { names: "model-00001-of-00004.safetensors".to_owned() }]);
}

#[test]
fn what_is_not_complete_says_which_file() {
    let cases: &[(Files<'_>, &str)] = &[
        (&[(INDEX, index(&[S1, S2]))], "model-00001-of-00003.safetensors, model-00002-of-00003.safetensors missing"),
        (&[(S1, weights(1)), (S3, weights(1))], "model-00002-of-00003.safetensors missing"),
        (&[(S1, weights(1)), (T2, weights(1))], "model-00001-of-00002.safetensors missing"),
        (&[("model.safetensors", vec![])], "model.safetensors is empty"),
        (&[(T1, weights(1)), (T2, vec![])], "model-00002-of-00002.safetensors is empty"),
        (&[("model.safetensors", weights(9)[..90].to_vec())], "bytes, has 90"),
        (&[("model.safetensors", [weights(1), vec![0]].concat())], "incomplete: model.safetensors should have"),
        (&[("model.safetensors", vec![1, 2, 3])], "should have 8 bytes, has 3"),
        (&[("model.safetensors", [&1000u64.to_le_bytes()[..], b"{}"].concat())], "should have 1008 bytes, has 10"),
        (&[("model.safetensors", [&u64::MAX.to_le_bytes()[..], b"{}"].concat())], "header cannot be read"),
        (&[("model.safetensors", [&2u64.to_le_bytes()[..], b"[]"].concat())], "header cannot be read"),
        (&[], "no .safetensors file"),
        (&[("pytorch_model.bin", vec![0])], "convert them to safetensors"),
        (&[(INDEX, b"{".to_vec())], "not JSON"),
        (&[(INDEX, index(&[]))], "names no file"),
        (&[(INDEX, index(&["../other/model.safetensors"]))], "outside its folder"),
    ];
    for (files, expected) in cases {
        let said = checked(files).unwrap_err();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn no_configuration_no_model() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("model.safetensors"), weights(1)).unwrap();
    assert!(matches!(check(dir.path()), Err(Fault::NoConfig)));
    assert!(matches!(check(Path::new("/nowhere/at/all")), Err(Fault::Unreadable { .. })));
}

#[test]
fn shard_names() {
    assert_eq!(shard("model-00002-of-00003"), Some(("model", 2, 3)));
    assert_eq!(shard("a-b-00001-of-00001"), Some(("a-b", 1, 1)));
    for other in ["model", "model-2-of-3", "model-00004-of-00003", "model-00000-of-00003", "-of-", "m-+0001-of-00002"] {
        assert_eq!(shard(other), None, "{other}");
    }
}
