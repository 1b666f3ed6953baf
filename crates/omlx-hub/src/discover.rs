//! The models that stand in the given folders, each once, under the name it is asked for by.
//!
//! A root may be a model itself, hold models (`m1/`, `owner/m2/`, `x.gguf`), or be a Hugging Face cache. What is not a model is
//! passed over; what is one but cannot be served is listed with the reason. Links are followed, loops and dangling links are skipped and said.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::complete::{Fault, Warning, check, check_gguf};

/// How deep below a root a model may lie: `owner/name/file.gguf`.
const MAX_DEPTH: usize = 3;
/// The most entries that are looked at below one root: a home directory given by mistake must not hang the start.
const MAX_ENTRIES: usize = 100_000;
/// The longest `adapter_config.json` that is read.
const MAX_ADAPTER_BYTES: u64 = 1 << 20;

/// What stands in the given folders.
#[derive(Debug, Default)]
pub struct Survey {
    /// Models, servable or not, in order of root and name.
    pub models: Vec<Found>,
    /// LoRA adapters, which are not models.
    pub adapters: Vec<Adapter>,
    /// What was passed over and should be said: missing roots, dangling links, loops.
    pub skipped: Vec<Skipped>,
}

/// A model on disk.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its name: the path below its root, or `owner/name` in a Hugging Face cache.
    pub id: String,
    /// The folder or the `.gguf` file.
    pub path: PathBuf,
    /// Which of the two.
    pub form: Form,
    /// Warnings if it can be served, the reason if not.
    pub state: Result<Vec<Warning>, Fault>,
}

/// The two forms a model has on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A Hugging Face folder.
    Folder,
    /// A GGUF file.
    Gguf,
}

/// A LoRA adapter on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Its name, made like a model's.
    pub id: String,
    /// The folder or file.
    pub path: PathBuf,
    /// The model it adapts, where it says.
    pub base: Option<String>,
}

/// Something passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Where it stands.
    pub path: PathBuf,
    /// Why it was passed over.
    pub why: &'static str,
}

/// Looks through the roots in order. A model met twice is listed where it was met first.
pub fn discover(roots: &[PathBuf]) -> Survey {
    let mut walk = Walk::default();
    for root in roots {
        walk.entries_left = MAX_ENTRIES;
        match root.canonicalize() {
            Ok(_) => walk.root(root),
            Err(_) => walk.skip(root, "no such folder"),
        }
    }
    walk.survey
}

/// The state of a single path that is claimed to be a model.
pub(crate) fn one(id: String, path: PathBuf) -> Found {
    let (form, state) = match path.is_file() {
        true => (Form::Gguf, check_gguf(&path).map(|_| vec![])),
        false => (Form::Folder, check(&path).map(|w| w.warnings)),
    };
    Found { id, path, form, state }
}

/// The base model an adapter folder names; `None` if the folder is no adapter.
pub(crate) fn adapter_base(folder: &Path) -> Option<Option<String>> {
    #[derive(serde::Deserialize)]
    struct Config {
        base_model_name_or_path: Option<String>,
    }
    let path = folder.join("adapter_config.json");
    let size = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?.len();
    let text = if size <= MAX_ADAPTER_BYTES { fs::read(&path).unwrap_or_default() } else { Vec::new() };
    Some(serde_json::from_slice::<Config>(&text).ok().and_then(|c| c.base_model_name_or_path))
}

/// The steps from a root to where the walk stands.
#[derive(Default, Clone)]
struct Steps(Vec<String>);

impl Steps {
    fn with(&self, step: &str) -> Self {
        Self([&self.0[..], &[step.to_owned()]].concat())
    }

    /// The steps as a name; a root that is a model itself goes by its folder's name.
    fn id(&self, path: &Path) -> String {
        if self.0.is_empty() { own_name(path) } else { self.0.join("/") }
    }
}

/// The last name of a path, resolved if it ends in `.` or the like; without `.gguf`.
pub(crate) fn own_name(path: &Path) -> String {
    let whole = if path.file_name().is_some() {
        path.to_owned()
    } else {
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    };
    let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.strip_suffix(".gguf").map(str::to_owned).unwrap_or(name)
}

#[derive(Default)]
struct Walk {
    survey: Survey,
    /// True paths of all folders and files met, against loops and second listings.
    met: HashSet<PathBuf>,
    entries_left: usize,
    /// Links below this root, looked at when all else was: a model goes by its own name, not by that of a link to it.
    links: VecDeque<(PathBuf, Steps)>,
}

impl Walk {
    fn skip(&mut self, path: &Path, why: &'static str) {
        self.survey.skipped.push(Skipped { path: path.to_owned(), why });
    }

    /// Looks through one root. What it finds is put in the order of names, links among the rest.
    fn root(&mut self, root: &Path) {
        let Survey { models, adapters, skipped } = &self.survey;
        let (m, a, s) = (models.len(), adapters.len(), skipped.len());
        self.visit(root, &Steps::default());
        while let Some((link, steps)) = self.links.pop_front() {
            self.visit(&link, &steps);
        }
        let Survey { models, adapters, skipped } = &mut self.survey;
        models[m..].sort_by(|x, y| x.path.cmp(&y.path));
        adapters[a..].sort_by(|x, y| x.path.cmp(&y.path));
        skipped[s..].sort_by(|x, y| x.path.cmp(&y.path));
    }

    /// Looks at one path; `path` exists or existed a moment ago.
    fn visit(&mut self, path: &Path, steps: &Steps) {
        let Ok(real) = path.canonicalize() else {
            return self.skip(path, "a link that leads nowhere");
        };
        if self.met.contains(&real) {
            // the same root or model a second time is no news; a link back up is
            if real.is_dir()
                && path.is_symlink()
                && path.ancestors().skip(1).any(|up| up.canonicalize().is_ok_and(|up| up == real))
            {
                self.skip(path, "a link to a folder around it");
            }
            return;
        }
        self.met.insert(real.clone());
        if real.is_file() {
            if path.extension().is_some_and(|e| e == "gguf") {
                self.gguf(path, steps);
            }
        } else if let Some(base) = adapter_base(path) {
            self.survey.adapters.push(Adapter { id: steps.id(path), path: path.to_owned(), base });
        } else if is_model_folder(path) {
            self.survey.models.push(one(steps.id(path), path.to_owned()));
        } else {
            self.descend(path, steps);
        }
    }

    fn gguf(&mut self, path: &Path, steps: &Steps) {
        let id = steps.id(path);
        let id = id.strip_suffix(".gguf").unwrap_or(&id).to_owned();
        let name = own_name(path);
        if let Some((stem, number, _)) = crate::complete::shard(&name) {
            // one entry for all parts of a split file
            if number == 1 {
                let id = id.replace(&name, stem);
                self.survey.models.push(one(id, path.to_owned()));
            }
            return;
        }
        match check_gguf(path) {
            Ok(gguf) if gguf.opt_str("general.type").ok().flatten() == Some("adapter") => {
                let base = gguf.opt_str("general.base_model.0.name").ok().flatten().map(str::to_owned);
                self.survey.adapters.push(Adapter { id, path: path.to_owned(), base });
            }
            Ok(gguf) if gguf.architecture().ok() == Some("clip") => {
                self.skip(path, "an image projector, part of another model")
            }
            checked => {
                let state = checked.map(|_| vec![]);
                self.survey.models.push(Found { id, path: path.to_owned(), form: Form::Gguf, state });
            }
        }
    }

    fn descend(&mut self, folder: &Path, steps: &Steps) {
        if steps.0.len() >= MAX_DEPTH {
            return;
        }
        let Ok(entries) = fs::read_dir(folder) else {
            return self.skip(folder, "cannot be read");
        };
        let mut names: Vec<String> = Vec::new();
        for entry in entries.flatten() {
            if self.entries_left == 0 {
                return self.skip(folder, "too many entries below this root; name a deeper folder");
            }
            self.entries_left -= 1;
            // hidden entries and names that no request could carry are not models
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with('.')
            {
                names.push(name);
            }
        }
        // the order of a listing is the file system's whim
        names.sort_unstable();
        for name in names {
            let path = folder.join(&name);
            match cache::repo_name(&name) {
                Some(repo) => self.cached(&path, &repo),
                None if path.is_symlink() => self.links.push_back((path, steps.with(&name))),
                None => self.visit(&path, &steps.with(&name)),
            }
        }
    }

    /// A repository's folder in a Hugging Face cache.
    fn cached(&mut self, folder: &Path, repo: &str) {
        let Some(snapshot) = cache::snapshot(folder, "main") else {
            return self.skip(folder, "a download that has not finished");
        };
        self.visit(&snapshot, &Steps(vec![repo.to_owned()]));
    }
}

/// Whether a folder claims to be a model: a configuration, or weights under their usual name.
fn is_model_folder(folder: &Path) -> bool {
    ["config.json", "model.safetensors", "model.safetensors.index.json"].iter().any(|n| folder.join(n).is_file())
}

#[cfg(test)]
mod tests;
