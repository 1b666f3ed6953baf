//! `golden`: what the tests compare against, made anew by transformers and compared with what is here.
//!
//! Everything is made below the target folder first. Files that differ in the last digits only, as they do from one processor to
//! another, stay as they are, so that a run without a reason changes nothing.

mod compare;
mod python;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use compare::Verdict;

use crate::models;
use crate::shell::{self, Done, Failed, Flags};

/// The folder of the references, below the root, and the script in it.
const FIXTURES: &str = "fixtures";
const SCRIPT: &str = "golden.py";

/// Its part of the help.
pub(crate) const HELP: &str = "  golden [NAME...]  Make the tests' references anew with transformers, in a Python environment of its own (some hundred
                    MB, once), and write those that differ; tiny and real models, all unless named.
      --check           only say what differs, and fail if anything does
      --python PATH     use this interpreter, which has what fixtures/requirements.txt names, and make no environment
";

/// `cargo xtask golden`.
pub(crate) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let check = flags.switch("--check");
    let python = flags.value("--python")?.map(PathBuf::from);
    let (tiny, real) = wanted(flags.names()?);

    let fixtures = shell::root().join(FIXTURES);
    let python = python.map_or_else(|| python::environment(&fixtures), Ok)?;
    let made = shell::target_dir()?.join("golden");
    let _ = fs::remove_dir_all(&made);
    let script = Script { python, script: fixtures.join(SCRIPT) };
    if let Some(names) = tiny {
        script.tiny(&made, &names)?;
    }
    for name in real {
        script.real(&made, name)?;
    }
    settle(&made, &fixtures, check)
}

/// The tiny models to make (all of them if none is named, none at all if only real ones are), and the real ones.
fn wanted(names: Vec<&str>) -> (Option<Vec<&str>>, Vec<&str>) {
    if names.is_empty() {
        return (Some(Vec::new()), models::names().collect());
    }
    let (real, tiny): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| models::names().any(|n| n == *name));
    ((!tiny.is_empty()).then_some(tiny), real)
}

/// The script and what runs it.
struct Script {
    python: PathBuf,
    script: PathBuf,
}

impl Script {
    fn tiny(&self, made: &Path, names: &[&str]) -> Done {
        println!("== tiny models");
        self.run("tiny", &made.join("tiny"), |command| command.args(names))
    }

    /// Vectors and tokenizer cases of a real model.
    fn real(&self, made: &Path, name: &str) -> Done {
        println!("== {name}");
        let folder = models::folder(name)?;
        for kind in ["tok", "real"] {
            self.run(kind, &made.join(kind).join(format!("{name}.json")), |command| command.arg(&folder))?;
        }
        Ok(())
    }

    fn run(&self, kind: &str, out: &Path, more: impl FnOnce(&mut Command) -> &mut Command) -> Done {
        let parent = out.parent().unwrap_or(out);
        fs::create_dir_all(parent).map_err(Failed::at(parent))?;
        let mut command = Command::new(&self.python);
        command.arg(&self.script).arg(kind).arg(out);
        shell::run(more(&mut command))
    }
}

/// Says how what was made differs from what is here, and unless this is only a check, takes it over.
fn settle(made: &Path, fixtures: &Path, check: bool) -> Done {
    let mut differ = 0;
    let files = files(made, 3)?;
    println!("== {} files", files.len());
    for file in &files {
        let below = file.strip_prefix(made).unwrap_or(file);
        let place = fixtures.join(below);
        let verdict = compare::files(&place, file)?;
        println!("{:9} {}{}", verdict.word(), below.display(), verdict.detail());
        if matches!(verdict, Verdict::Same | Verdict::Digits(_)) {
            continue;
        }
        differ += 1;
        if !check {
            let parent = place.parent().unwrap_or(fixtures);
            fs::create_dir_all(parent).map_err(Failed::at(parent))?;
            fs::copy(file, &place).map_err(Failed::at(&place))?;
        }
    }
    match (differ, check) {
        (0, _) => println!("the references are as the script makes them"),
        (n, true) => {
            return Err(Failed::new(format!("{n} files differ; those made now are in {}", made.display())));
        }
        (n, false) => println!("{n} files written; `git diff --stat {FIXTURES}` shows them"),
    }
    Ok(())
}

/// All files below a folder, in order.
fn files(folder: &Path, depth: usize) -> Done<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Failed::at(folder))?.flatten() {
        let path = entry.path();
        if path.is_dir() && depth > 0 {
            found.extend(files(&path, depth - 1)?);
        } else if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
