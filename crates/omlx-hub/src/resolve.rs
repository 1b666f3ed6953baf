//! One name to one model: a path, then the given folders, then the hub's cache on this machine, then the hub itself.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::cache;
use crate::discover::{Form, Found, adapter_base, discover, one};
use crate::download::{Hub, Progress, download};
use crate::error::{Error, Result};

/// Where to look for models.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Folders that hold models.
    pub model_dirs: Vec<PathBuf>,
    /// The hub's cache on this machine, as other tools fill it (`~/.cache/huggingface/hub`); downloads go there too.
    pub hub_cache: Option<PathBuf>,
    /// The hub; `None` stays on this machine. Needs `hub_cache`.
    pub hub: Option<Hub>,
}

/// What a user may write to name something on the hub: `owner/name`, `owner/name@revision` or `owner/name/file.gguf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    /// `owner/name`.
    pub name: String,
    /// A branch, tag or commit.
    pub revision: String,
    /// A single GGUF file of the repository.
    pub file: Option<String>,
}

impl FromStr for Repo {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::BadRepo { name: text.to_owned() };
        let word = |s: &str| {
            cache::is_plain(s)
                && s.len() <= 96
                && !s.contains("..")
                && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        let (path, revision) = text.split_once('@').unwrap_or((text, "main"));
        let mut steps = path.splitn(3, '/');
        let (Some(owner), Some(name)) = (steps.next(), steps.next()) else {
            return Err(bad());
        };
        let file = steps.next();
        let file_ok = file.is_none_or(|f| f.ends_with(".gguf") && f.split('/').all(cache::is_plain));
        if !(word(owner) && word(name) && word(revision) && file_ok) {
            return Err(bad());
        }
        Ok(Self { name: format!("{owner}/{name}"), revision: revision.to_owned(), file: file.map(str::to_owned) })
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(file) = &self.file {
            write!(f, "/{file}")?;
        }
        if self.revision != "main" {
            write!(f, "@{}", self.revision)?;
        }
        Ok(())
    }
}

/// Finds the model a user named, fetching it if that is allowed and needed.
///
/// `progress` is told about a download and may stop it; nothing is told where the model is here already.
pub fn resolve(name: &str, config: &Config, progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>) -> Result<Found> {
    if let Some(found) = at_path(name)? {
        return servable(found);
    }
    let short = unlinked(name, config.hub.as_ref());
    let name = short.as_deref().unwrap_or(name);
    if let Some(found) = in_dirs(name, &config.model_dirs)? {
        return servable(found);
    }
    let repo: Option<Repo> = name.parse().ok();
    if name.contains("://") {
        return Err(Error::Link { link: name.to_owned() });
    }
    if Path::new(name).is_file() {
        return Err(Error::NoModelFile { path: name.into() });
    }
    if is_path(name, repo.as_ref()) {
        return Err(Error::NoSuchPath { path: name.into() });
    }
    if let (Some(repo), Some(cache)) = (&repo, &config.hub_cache) {
        if let Some(found) = in_cache(repo, cache)?
            && (found.state.is_ok() || config.hub.is_none())
        {
            return servable(found);
        }
        if let Some(hub) = &config.hub {
            let path = download(repo, cache, hub, progress)?;
            return servable(one(repo.to_string(), path));
        }
    }
    Err(not_found(name, config, repo.is_some()))
}

/// The hosts whose links are known; the given hub's is one more.
const HOSTS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];

/// What a link to a model's page or file on the hub says, as it comes from a browser, in the short form.
fn unlinked(link: &str, hub: Option<&Hub>) -> Option<String> {
    let bare = |url: &str| ["https://", "http://"].iter().find_map(|s| url.strip_prefix(s)).map(str::to_owned);
    let rest = bare(link).unwrap_or_else(|| link.to_owned());
    let rest = rest.split(['?', '#']).next()?.trim_end_matches('/');
    let own = hub.and_then(|hub| bare(&hub.endpoint));
    let known = HOSTS.into_iter().chain(own.as_deref());
    let path = known.filter_map(|host| rest.strip_prefix(host)?.strip_prefix('/')).next()?;
    let at = |revision: &str| if revision == "main" { String::new() } else { format!("@{revision}") };
    match path.split('/').collect::<Vec<_>>().as_slice() {
        [owner, name] => Some(format!("{owner}/{name}")),
        [owner, name, "tree", revision] => Some(format!("{owner}/{name}{}", at(revision))),
        [owner, name, "blob" | "resolve", revision, file @ ..] if !file.is_empty() => {
            Some(format!("{owner}/{name}/{}{}", file.join("/"), at(revision)))
        }
        _ => None,
    }
}

fn not_found(name: &str, config: &Config, is_repo: bool) -> Error {
    let mut looked: Vec<String> = config.model_dirs.iter().map(|d| d.display().to_string()).collect();
    looked.extend(config.hub_cache.iter().map(|d| d.display().to_string()));
    if looked.is_empty() {
        looked.push("the current folder".to_owned());
    }
    let hint = match (is_repo, &config.hub) {
        (true, None) if name.ends_with(".gguf") => {
            "; there is no such file, and the hub was not asked, as it is switched off"
        }
        (true, None) => "; the hub was not asked, as it is switched off",
        (true, Some(_)) => "; the hub was not asked, as there is no cache folder to download to",
        (false, _) => "; give a path, a name from the list of models, or owner/name on the hub",
    };
    Error::NotFound { name: name.to_owned(), looked: looked.join(", "), hint }
}

fn servable(found: Found) -> Result<Found> {
    match found.state.clone() {
        Ok(_) => Ok(found),
        Err(fault) => Err(Error::Incomplete { found: Box::new(found), fault }),
    }
}

/// Whether a name can only have been meant as a path: nothing on a hub is called so.
fn is_path(name: &str, repo: Option<&Repo>) -> bool {
    let begins = ["/", "./", "../", "~", ".\\", "..\\"].iter().any(|begin| name.starts_with(begin));
    // `owner/name/file.gguf` is both, and then it is the hub's to say that it is not there
    let several = name.matches('/').count() > 1 || name.ends_with(".gguf");
    begins || name == "." || name == ".." || (several && repo.is_none_or(|repo| repo.file.is_none()))
}

/// A path to a folder or a `.gguf` file.
fn at_path(name: &str) -> Result<Option<Found>> {
    let path = Path::new(name);
    if path.is_file() {
        return Ok(path
            .extension()
            .is_some_and(|e| e == "gguf")
            .then(|| one(crate::discover::own_name(path), path.to_owned())));
    }
    if !path.is_dir() {
        return Ok(None);
    }
    if let Some(base) = adapter_base(path) {
        return Err(Error::IsAdapter { name: name.to_owned(), base });
    }
    // a folder that is no model but holds exactly one is as good as that one
    let mut inside = discover(&[path.to_owned()]).models;
    match inside.len() {
        0 => Ok(Some(one(crate::discover::own_name(path), path.to_owned()))),
        1 => Ok(inside.pop()),
        _ => Err(Error::Ambiguous {
            name: name.to_owned(),
            candidates: inside.into_iter().map(|f| f.path.display().to_string()).collect(),
        }),
    }
}

/// A full name, or a last name that only one model has.
fn in_dirs(name: &str, dirs: &[PathBuf]) -> Result<Option<Found>> {
    let survey = discover(dirs);
    if let Some(adapter) = survey.adapters.iter().find(|a| a.id == name) {
        return Err(Error::IsAdapter { name: name.to_owned(), base: adapter.base.clone() });
    }
    // A file may be asked for by its whole name, too.
    let stem = name.strip_suffix(".gguf");
    let is = |id: &str, found: &Found| {
        let file = found.path.extension().is_some_and(|end| end == "gguf");
        id == name || (file && stem == Some(id))
    };
    let (exact, rest): (Vec<Found>, Vec<Found>) = survey.models.into_iter().partition(|m| is(&m.id, m));
    // of two roots with the same name the first wins, as in any search path
    if let Some(found) = exact.into_iter().next() {
        return Ok(Some(found));
    }
    let mut last: Vec<Found> =
        rest.into_iter().filter(|m| is(m.id.rsplit('/').next().unwrap_or_default(), m)).collect();
    match last.len() {
        0 | 1 => Ok(last.pop()),
        _ => Err(Error::Ambiguous { name: name.to_owned(), candidates: last.into_iter().map(|m| m.id).collect() }),
    }
}

/// A snapshot in the hub's cache.
fn in_cache(repo: &Repo, cache: &Path) -> Result<Option<Found>> {
    let Some(snapshot) = cache::snapshot(&cache.join(cache::folder_name(&repo.name)), &repo.revision) else {
        return Ok(None);
    };
    if let Some(file) = &repo.file {
        let path = snapshot.join(file);
        return Ok(path.is_file().then(|| one(repo.to_string(), path)));
    }
    if let Some(base) = adapter_base(&snapshot) {
        return Err(Error::IsAdapter { name: repo.to_string(), base });
    }
    let mut models = discover(&[snapshot]).models;
    if models.len() > 1 {
        let files = models.iter().filter(|m| m.form == Form::Gguf).map(|m| own_file(&m.path)).collect();
        return Err(Error::ChooseFile { repo: repo.name.clone(), files });
    }
    Ok(models.pop().map(|found| Found { id: repo.to_string(), ..found }))
}

fn own_file(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
