//! `tidy`: the rules of the house that a compiler does not check. There is no list of exceptions.

pub(crate) mod layers;
mod source;
mod text;
mod tree;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::shell::{self, Done, Failed, Flags};

/// A broken rule, where, and what the rule says.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    place: String,
    rule: String,
}

impl Finding {
    fn new(place: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { place: place.into(), rule: rule.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.rule)
    }
}

/// Its part of the help.
pub(crate) const HELP: &str = "  tidy              Check the rules of the house: layers, captions, sizes, names.
";

/// `cargo xtask tidy`.
pub(crate) fn run(args: &[String]) -> Done {
    Flags::new(args).end()?;
    let found = check(&shell::root())?;
    for finding in &found {
        println!("{finding}");
    }
    match found.len() {
        0 => {
            println!("tidy");
            Ok(())
        }
        n => Err(Failed::new(format!("{n} rules broken"))),
    }
}

/// All rules over the whole workspace.
fn check(root: &Path) -> Done<Vec<Finding>> {
    let packages = layers::packages(&shell::metadata()?);
    let mut found = layers::check(&packages);
    found.extend(tree::check_top(root)?);
    for path in tree::sources(root)? {
        let text = std::fs::read_to_string(&path).map_err(Failed::at(&path))?;
        let below: PathBuf = path.strip_prefix(root).unwrap_or(&path).to_owned();
        found.extend(source::check(&below, &text));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
