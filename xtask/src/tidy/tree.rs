//! What may stand at the top level, and where the sources are.

use std::fs;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::shell::{Done, Failed};

/// Everything at the top level but dot-files.
const TOP: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "LICENSE",
    "README.md",
    "apps",
    "crates",
    "docs",
    "fixtures",
    "kernels",
    "rust-toolchain.toml",
    "xtask",
];

/// Compares the top level with what belongs there.
pub(super) fn check_top(root: &Path) -> Done<Vec<Finding>> {
    let here: Vec<String> = entries(root)?.iter().filter_map(|p| Some(p.file_name()?.to_str()?.to_owned())).collect();
    let strange = here.iter().filter(|n| !n.starts_with('.') && *n != "target" && !TOP.contains(&n.as_str()));
    let missing = TOP.iter().filter(|n| !here.iter().any(|h| h == *n));
    Ok(strange
        .map(|n| Finding::new(n, "does not belong at the top level"))
        .chain(missing.map(|n| Finding::new(*n, "is missing at the top level")))
        .collect())
}

/// All Rust files of the workspace.
pub(super) fn sources(root: &Path) -> Done<Vec<PathBuf>> {
    let mut found = Vec::new();
    for part in ["apps", "crates", "fixtures", "kernels", "xtask"] {
        collect(&root.join(part), &mut found)?;
    }
    Ok(found)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Done {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !path.is_symlink() && !name.starts_with('.') && name != "target" {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Done<Vec<PathBuf>> {
    let listing = fs::read_dir(folder).map_err(Failed::at(folder))?;
    let mut paths: Vec<PathBuf> = listing.flatten().map(|e| e.path()).collect();
    paths.sort();
    Ok(paths)
}
