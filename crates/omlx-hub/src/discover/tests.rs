//! One root with everything in it that has been met in the field.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Form, Survey, discover};

fn weights() -> Vec<u8> {
    let header = b"{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    [&(header.len() as u64).to_le_bytes()[..], header, &[0]].concat()
}

fn gguf(pairs: &[(&str, &str)]) -> Vec<u8> {
    let text = |s: &str| [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat();
    let mut out = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend((pairs.len() as u64).to_le_bytes());
    for (key, value) in pairs {
        out.extend([&text(key)[..], &8u32.to_le_bytes(), &text(value)].concat());
    }
    out
}

fn model(at: &Path) {
    fs::create_dir_all(at).unwrap();
    fs::write(at.join("config.json"), "{}").unwrap();
    fs::write(at.join("model.safetensors"), weights()).unwrap();
}

/// A snapshot whose files are links into `blobs/`, as the hub's own tools lay it out.
fn cached(cache: &Path, repo: &str, commit: &str) -> PathBuf {
    let folder = cache.join(repo);
    let snapshot = folder.join("snapshots").join(commit);
    for dir in [&folder.join("blobs"), &folder.join("refs"), &snapshot] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(folder.join("refs/main"), commit).unwrap();
    for (name, bytes) in [("config.json", b"{}".to_vec()), ("model.safetensors", weights())] {
        fs::write(folder.join("blobs").join(name), bytes).unwrap();
        symlink(format!("../../blobs/{name}"), snapshot.join(name)).unwrap();
    }
    snapshot
}

fn ids(survey: &Survey) -> Vec<&str> {
    survey.models.iter().map(|m| m.id.as_str()).collect()
}

#[test]
fn every_layout_once() {
    let dir = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (dir.path().join("root"), dir.path().join("elsewhere"));
    model(&root.join("m1"));
    model(&root.join("org/m2"));
    model(&root.join("org2/m2"));
    model(&elsewhere.join("m4"));
    cached(&root, "models--org--m3", "abc");
    symlink(elsewhere.join("m4"), root.join("m4")).unwrap();
    symlink(&root, root.join("org/up")).unwrap();
    symlink("self", root.join("self")).unwrap();
    symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    fs::create_dir_all(root.join("empty/deeper")).unwrap();
    fs::write(root.join("README.md"), "").unwrap();
    model(&root.join(".hidden"));

    let survey = discover(&[root.clone(), root.join("../root"), dir.path().join("missing")]);
    assert_eq!(ids(&survey), ["m1", "m4", "org/m3", "org/m2", "org2/m2"]);
    assert!(survey.models.iter().all(|m| m.state.is_ok() && m.form == Form::Folder));
    let skipped: Vec<_> = survey.skipped.iter().map(|s| s.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(skipped, ["dangling", "up", "self", "missing"]);
}

#[test]
fn a_folder_beats_a_link_to_it() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("api1"));
    symlink("api1", dir.path().join("alias1")).unwrap();
    model(&dir.path().join("org/m"));
    symlink("org", dir.path().join("alias2")).unwrap();
    assert_eq!(ids(&discover(&[dir.path().to_owned()])), ["api1", "org/m"]);
}

#[test]
fn a_root_that_is_a_model_goes_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("tiny"));
    assert_eq!(ids(&discover(&[dir.path().join("tiny")])), ["tiny"]);
}

#[test]
fn gguf_files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("owner/name")).unwrap();
    fs::write(at("a.gguf"), gguf(&[("general.architecture", "llama")])).unwrap();
    fs::write(at("owner/name/b.Q4_K_M.gguf"), gguf(&[])).unwrap();
    fs::write(at("owner/name/mmproj.gguf"), gguf(&[("general.architecture", "clip")])).unwrap();
    fs::write(at("lora.gguf"), gguf(&[("general.type", "adapter"), ("general.base_model.0.name", "Base")])).unwrap();
    fs::write(at("cut.gguf"), &gguf(&[("k", "v")])[..30]).unwrap();
    fs::write(at("big-00001-of-00002.gguf"), gguf(&[])).unwrap();
    fs::write(at("big-00002-of-00002.gguf"), gguf(&[])).unwrap();

    let survey = discover(&[dir.path().to_owned()]);
    assert_eq!(ids(&survey), ["a", "big", "cut", "owner/name/b.Q4_K_M"]);
    let said: Vec<_> = survey.models.iter().map(|m| m.state.as_ref().map_err(ToString::to_string)).collect();
    assert!(said[0].is_ok() && said[3].is_ok());
    assert!(said[1].as_ref().unwrap_err().contains("gguf-split --merge"));
    assert!(said[2].as_ref().unwrap_err().contains("cut.gguf: "));
    assert_eq!((survey.adapters[0].id.as_str(), survey.adapters[0].base.as_deref()), ("lora", Some("Base")));
    assert_eq!(survey.skipped.len(), 1);
}

#[test]
fn adapters_are_not_models() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("lora"));
    fs::write(dir.path().join("lora/adapter_config.json"), "{\"base_model_name_or_path\":\"org/base\"}").unwrap();
    let survey = discover(&[dir.path().to_owned()]);
    assert!(survey.models.is_empty());
    assert_eq!(survey.adapters[0].base.as_deref(), Some("org/base"));
}

#[test]
fn half_a_model_is_listed_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("m")).unwrap();
    fs::write(dir.path().join("m/config.json"), "{}").unwrap();
    let survey = discover(&[dir.path().to_owned()]);
    assert!(survey.models[0].state.as_ref().unwrap_err().to_string().contains("no .safetensors file"));
}

#[test]
fn a_cache_shows_the_commit_that_main_names() {
    let dir = tempfile::tempdir().unwrap();
    cached(dir.path(), "models--o--n", "new");
    let old = cached(dir.path(), "models--o--n", "old");
    assert_eq!(discover(&[dir.path().to_owned()]).models[0].path, old);
    fs::write(dir.path().join("models--o--n/refs/main"), "../../../..").unwrap();
    assert!(discover(&[dir.path().to_owned()]).models[0].path.starts_with(dir.path().join("models--o--n/snapshots")));
}
