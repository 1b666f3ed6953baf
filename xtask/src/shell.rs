//! Running other programs, reading flags, and saying what failed.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::children;

/// Why a command of ours ended without success; the text is all there is to it.
#[derive(Debug)]
pub(crate) struct Failed(String);

/// What a command of ours answers.
pub(crate) type Done<T = ()> = Result<T, Failed>;

impl Failed {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// A mistake in the command line.
    pub(crate) fn usage(why: impl fmt::Display) -> Self {
        Self(format!("{why}; see `cargo xtask --help`"))
    }

    /// An error on a path.
    pub(crate) fn at<E: fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self + '_ {
        move |e| Self(format!("{}: {e}", path.display()))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    // this crate stands one level below it
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// cargo, run from the root.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    as_typed(&mut command);
    command
}

/// Takes away what `cargo run` tells us about ourselves. Build scripts of dependencies watch these variables, so with them a
/// build from here and one typed by hand would each undo the other's.
fn as_typed(command: &mut Command) {
    let ours = |name: &OsStr| {
        let name = name.to_string_lossy();
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
}

/// A command as a user would type it.
pub(crate) fn typed(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    std::iter::once(program).chain(command.get_args()).map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Runs a command to its end, its output going where ours goes.
pub(crate) fn run(command: &mut Command) -> Done {
    match children::status(command) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failed(format!("`{}` failed ({status})", typed(command)))),
        Err(e) => Err(Failed(format!("`{}` cannot be started: {e}", typed(command)))),
    }
}

/// The same, and says first what it runs and then how long that took.
pub(crate) fn run_aloud(command: &mut Command) -> Done {
    println!("$ {}", typed(command));
    let begin = Instant::now();
    let done = run(command);
    println!("  {} after {:.1} s", if done.is_ok() { "done" } else { "failed" }, begin.elapsed().as_secs_f32());
    done
}

/// What `cargo metadata` says about the workspace's own packages.
pub(crate) fn metadata() -> Done<serde_json::Value> {
    let mut command = cargo(["metadata", "--no-deps", "--format-version", "1", "--quiet"]);
    let output = command.output().map_err(|e| Failed(format!("cargo metadata cannot be started: {e}")))?;
    if !output.status.success() {
        return Err(Failed(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr))));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| Failed(format!("cargo metadata: {e}")))
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> Done<PathBuf> {
    let metadata = metadata()?;
    let dir = metadata["target_directory"].as_str();
    dir.map(PathBuf::from).ok_or_else(|| Failed::new("cargo metadata names no target directory"))
}

/// A command line taken apart: what begins with `--` and is known, and the rest.
pub(crate) struct Flags<'a> {
    rest: Vec<&'a str>,
}

impl<'a> Flags<'a> {
    pub(crate) fn new(args: &'a [String]) -> Self {
        Self { rest: args.iter().map(String::as_str).collect() }
    }

    /// Whether a switch was given.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let before = self.rest.len();
        self.rest.retain(|a| *a != name);
        self.rest.len() < before
    }

    /// The value after an option, as `--dir X` or `--dir=X`.
    pub(crate) fn value(&mut self, name: &str) -> Done<Option<&'a str>> {
        let Some(at) = self.rest.iter().position(|a| a.split('=').next() == Some(name)) else {
            return Ok(None);
        };
        let given = self.rest.remove(at);
        if let Some((_, value)) = given.split_once('=') {
            return Ok(Some(value));
        }
        if at < self.rest.len() {
            Ok(Some(self.rest.remove(at)))
        } else {
            Err(Failed::usage(format!("{name} needs a value")))
        }
    }

    /// What is left, none of which may be an option.
    pub(crate) fn names(self) -> Done<Vec<&'a str>> {
        match self.rest.iter().find(|a| a.starts_with('-')) {
            Some(unknown) => Err(Failed::usage(format!("unknown option {unknown}"))),
            None => Ok(self.rest),
        }
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Done {
        match self.names()?.first() {
            Some(extra) => Err(Failed::usage(format!("unexpected `{extra}`"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
