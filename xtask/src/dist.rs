//! `dist`: the release binary, and a dry run of publishing every public crate.
//!
//! The dry run builds each crate from its packaged files alone, candle included, which takes minutes; the tests do the same
//! without building ([`packaging`]): what a manifest lacks, a file that is left out, or a sibling's version shows there too.

use std::process::Command;

use crate::shell::{self, Done, Flags};
use crate::tidy::layers::LAYERS;

/// Its part of the help.
pub(crate) const HELP: &str =
    "  dist              Build the release binary and try to publish every public crate, without doing so.
      --allow-dirty     also with changes that are not committed
";

/// `cargo xtask dist`.
pub(crate) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    // cargo refuses to package what is not committed; while working that is a nuisance
    let dirty = flags.switch("--allow-dirty");
    flags.end()?;

    println!("== 1 of 2: the release binary");
    shell::run_aloud(&mut shell::cargo(["build", "--release", "--locked", "--package", "omlx-server"]))?;

    let packages = public()?;
    println!("== 2 of 2: publish {} crates, dry run; each is built from its package, in minutes", packages.len());
    let mut command = publish(&packages);
    if dirty {
        command.arg("--allow-dirty");
    }
    shell::run_aloud(&mut command)
}

/// Packages every public crate, without building it; a step of the tests.
pub(crate) fn packaging() -> Done<Command> {
    let mut command = publish(&public()?);
    command.args(["--no-verify", "--allow-dirty", "--quiet"]);
    Ok(command)
}

fn publish(packages: &[String]) -> Command {
    // all at once: cargo then lets each crate see its unpublished siblings through a registry of its own making,
    // and builds every one from its packaged files alone
    let mut command = shell::cargo(["publish", "--dry-run", "--locked"]);
    command.args(packages.iter().flat_map(|p| ["--package", p]));
    command
}

/// The crates that are published, lowest layer first.
fn public() -> Done<Vec<String>> {
    let metadata = shell::metadata()?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    // `publish = false` is an empty list of registries
    let is_public = |p: &serde_json::Value| !p["publish"].as_array().is_some_and(Vec::is_empty);
    let mut names: Vec<String> =
        packages.iter().filter(|p| is_public(p)).filter_map(|p| p["name"].as_str().map(str::to_owned)).collect();
    names.sort_by_key(|name| LAYERS.iter().position(|room| room.name == name).unwrap_or(LAYERS.len()));
    Ok(names)
}
