//! Names to models without a network; the hub's side is in `tests/fake_hub.rs`.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{Config, Repo, resolve};
use crate::{Error, Found, Hub};

fn model(at: &Path) {
    let header = b"{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    fs::create_dir_all(at).unwrap();
    fs::write(at.join("config.json"), "{}").unwrap();
    fs::write(at.join("model.safetensors"), [&(header.len() as u64).to_le_bytes()[..], header, &[0]].concat()).unwrap();
}

fn quietly(name: &str, config: &Config) -> Result<Found, Error> {
    resolve(name, config, &mut |_| ControlFlow::Continue(()))
}

/// Two owners with a model of the same name, one with another.
fn shelf() -> (tempfile::TempDir, Config) {
    let dir = tempfile::tempdir().unwrap();
    for name in ["org/m2", "org2/m2", "org/only"] {
        model(&dir.path().join(name));
    }
    let config = Config { model_dirs: vec![dir.path().to_owned()], ..Config::default() };
    (dir, config)
}

#[test]
fn full_names_and_last_names() {
    let (dir, config) = shelf();
    assert_eq!(quietly("org2/m2", &config).unwrap().path, dir.path().join("org2/m2"));
    assert_eq!(quietly("only", &config).unwrap().id, "org/only");
    let error = quietly("m2", &config).unwrap_err();
    assert_eq!(error.to_string(), "`m2` may be any of org/m2, org2/m2; use a full name");
    let error = quietly("org/absent", &config).unwrap_err().to_string();
    assert!(error.contains("no model `org/absent`") && error.contains("switched off"), "{error}");
}

#[test]
fn a_file_by_its_whole_name() {
    let (dir, config) = shelf();
    fs::write(dir.path().join("org/q.Q4_1.gguf"), b"GGUF").unwrap();
    for name in ["q.Q4_1.gguf", "q.Q4_1", "org/q.Q4_1.gguf", "org/q.Q4_1"] {
        let found = quietly(name, &config);
        let path = match &found {
            Ok(found) => &found.path,
            Err(Error::Incomplete { found, .. }) => &found.path,
            Err(error) => panic!("{name}: {error}"),
        };
        assert_eq!(*path, dir.path().join("org/q.Q4_1.gguf"), "{name}");
    }
    // A folder has no such ending.
    assert!(matches!(quietly("only.gguf", &config), Err(Error::NoSuchPath { .. })));
}

#[test]
fn paths() {
    let (dir, _) = shelf();
    let nothing = Config::default();
    let path = |p: &str| dir.path().join(p).to_str().unwrap().to_owned();
    assert_eq!(quietly(&path("org/m2"), &nothing).unwrap().id, "m2");
    assert!(matches!(quietly(&path("org"), &nothing), Err(Error::Ambiguous { .. })));
    assert_eq!(quietly(&path("org2"), &nothing).unwrap().path, PathBuf::from(path("org2/m2")));
    fs::remove_file(path("org2/m2/model.safetensors")).unwrap();
    let error = quietly(&path("org2/m2"), &nothing).unwrap_err();
    assert!(error.to_string().contains("`m2` cannot be served: incomplete"), "{error}");
    assert!(matches!(error, Error::Incomplete { found, .. } if found.path == Path::new(&path("org2/m2"))));
    fs::write(path("org2/m2/adapter_config.json"), "{}").unwrap();
    assert!(matches!(quietly(&path("org2/m2"), &nothing), Err(Error::IsAdapter { .. })));
}

/// What can only be a path is not looked for under its name, here or on the hub; seen to fail: without the question.
#[test]
fn paths_to_nothing() {
    let (dir, config) = shelf();
    // nobody listens there: being asked would be another error
    let hub = Config { hub: Some(Hub::at("http://127.0.0.1:9")), hub_cache: Some(dir.path().to_owned()), ..config };
    let nothing = Config::default();
    let absolute = dir.path().join("absent").to_str().unwrap().to_owned();
    for name in [&absolute, "./absent", "../absent", "~/absent", "absent.gguf", "a/absent.gguf", "a/b/c", "a/b/c/d.bin"]
    {
        for config in [&nothing, &hub] {
            let error = quietly(name, config).unwrap_err();
            assert!(matches!(&error, Error::NoSuchPath { path } if path == Path::new(name)), "{name}: {error}");
        }
    }
    let text = quietly(&absolute, &nothing).unwrap_err().to_string();
    assert_eq!(
        text,
        format!("there is no file or folder {absolute}; give a .gguf file, or a folder that holds config.json")
    );
    assert!(quietly("~/absent", &nothing).unwrap_err().to_string().contains("home folder"));
    // these may be names, and the last one a file on the hub
    for name in ["absent", "org/absent", "org/absent@v1"] {
        let text = quietly(name, &nothing).unwrap_err().to_string();
        assert!(text.contains("no model `"), "{name}: {text}");
    }
    let text = quietly("org/absent/x.gguf", &nothing).unwrap_err().to_string();
    assert!(text.contains("no model `org/absent/x.gguf`") && text.contains("there is no such file"), "{text}");
    assert!(matches!(quietly("org/absent/x.gguf", &hub), Err(Error::Network { .. })));
}

#[test]
fn a_file_that_is_no_model() {
    let (dir, config) = shelf();
    let file = dir.path().join("org/m2/model.safetensors");
    let error = quietly(file.to_str().unwrap(), &config).unwrap_err();
    assert!(matches!(&error, Error::NoModelFile { path } if *path == file), "{error}");
}

#[test]
fn the_cache_is_asked_before_the_hub() {
    let dir = tempfile::tempdir().unwrap();
    model(&dir.path().join("models--o--n/snapshots/abc"));
    // nobody listens there: being asked would be an error
    let hub = Some(Hub::at("http://127.0.0.1:9"));
    let config = Config { hub_cache: Some(dir.path().to_owned()), hub, ..Config::default() };
    assert_eq!(quietly("o/n", &config).unwrap().id, "o/n");
    assert_eq!(quietly("o/n@abc", &config).unwrap().id, "o/n@abc");
}

#[test]
fn repository_names() {
    let repo = |s: &str| s.parse::<Repo>().map(|r| (r.name, r.revision, r.file));
    assert_eq!(repo("o/n").unwrap(), ("o/n".into(), "main".into(), None));
    assert_eq!(repo("o/n@v1.0").unwrap(), ("o/n".into(), "v1.0".into(), None));
    assert_eq!(repo("o/n/q/x.gguf").unwrap(), ("o/n".into(), "main".into(), Some("q/x.gguf".into())));
    for bad in [
        "",
        "n",
        "o/",
        "/n",
        "o/n/x.bin",
        "../n",
        "o/..",
        "o/n@../x",
        "o/n/../x.gguf",
        "o/n?x",
        "o/n x",
        "o/a..b",
        "o\\n/x",
        "o/n@",
    ] {
        assert!(matches!(repo(bad), Err(Error::BadRepo { .. })), "{bad}");
    }
    for text in ["o/n", "o/n@v1", "o/n/x.gguf"] {
        assert_eq!(text.parse::<Repo>().unwrap().to_string(), text);
    }
}

/// Links as a browser gives them.
#[test]
fn links_to_the_hub_are_names() {
    let mirror = Hub::at("http://127.0.0.1:9/");
    for (link, name) in [
        ("https://huggingface.co/o/n", Some("o/n")),
        ("https://huggingface.co/o/n/", Some("o/n")),
        ("http://hf.co/o/n?library=x", Some("o/n")),
        ("huggingface.co/o/n#files", Some("o/n")),
        ("https://huggingface.co/o/n/tree/main", Some("o/n")),
        ("https://huggingface.co/o/n/tree/v2", Some("o/n@v2")),
        ("https://huggingface.co/o/n/blob/main/f.gguf", Some("o/n/f.gguf")),
        ("https://huggingface.co/o/n/resolve/v2/q/f.gguf?download=true", Some("o/n/q/f.gguf@v2")),
        ("http://127.0.0.1:9/o/n", Some("o/n")),
        ("https://huggingface.co/o", None),
        ("https://huggingface.co/o/n/discussions", None),
        ("https://huggingface.company/o/n", None),
        ("https://elsewhere.example/o/n", None),
        ("o/n", None),
    ] {
        assert_eq!(super::unlinked(link, Some(&mirror)).as_deref(), name, "{link}");
    }
    let error = quietly("https://elsewhere.example/o/n", &Config::default()).unwrap_err();
    assert!(matches!(error, Error::Link { .. }) && error.to_string().contains("give owner/name"), "{error}");
    let error = quietly("https://huggingface.co/o/n", &Config::default()).unwrap_err();
    assert!(error.to_string().starts_with("no model `o/n` here"), "{error}");
}
