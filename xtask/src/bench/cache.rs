//! `bench cache`: what stored prefixes cost and what they save, beside the figures that were asked for.
//!
//! Four parts, each with a bar: blocks from disk beside a plain read of the same files; a large folder's start and look-up; the
//! first token of a long prompt from each place; decode while blocks are written behind. All comparisons take turns in one run.

mod disk;
mod pages;
mod served;
mod stream;

use std::path::PathBuf;

use crate::models;
use crate::shell::{self, Done, Failed, Flags};

const MODEL: &str = "smollm2-135m-instruct";
/// One thing that is measured.
type Part = fn(&Plan) -> Done;
/// The parts by name, in the order in which they are run.
const PARTS: [(&str, Part); 4] =
    [("restore", disk::restore), ("index", disk::index), ("first", served::first), ("behind", served::behind)];

/// What is measured, and where.
struct Plan {
    model: PathBuf,
    folder: PathBuf,
    rounds: usize,
}

pub(super) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let rounds = flags.value("--rounds")?.map_or(Ok(3), str::parse);
    let rounds: usize = rounds.map_err(|_| Failed::usage("--rounds needs a number"))?;
    let folder = flags.value("--folder")?.map_or_else(std::env::temp_dir, PathBuf::from);
    let model = flags.value("--model")?.map(str::to_owned);
    let parts = parts(&flags.names()?)?;
    let model = match model {
        Some(model) => super::named(&[&model])?.remove(0),
        None => models::ensure(MODEL)?,
    };
    let all = ["--bin", "omlx-server", "--example", "throughput", "--example", "tier_rate", "--example", "tier_index"];
    shell::run(&mut shell::cargo(["build", "--release", "--workspace"].into_iter().chain(all)))?;
    let plan = Plan { model, folder, rounds: rounds.max(1) };
    parts.into_iter().try_for_each(|part| part(&plan))
}

/// The parts named, or all.
fn parts(names: &[&str]) -> Done<Vec<Part>> {
    let known = |name: &&str| PARTS.iter().any(|(part, _)| part == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
        return Err(Failed::usage(format!("bench cache has no part `{name}`, only {}", all.join(", "))));
    }
    let chosen = PARTS.iter().filter(|(part, _)| names.is_empty() || names.contains(part));
    Ok(chosen.map(|(_, run)| *run).collect())
}

/// A table's row that ends with a bar and whether it was met.
fn row(cells: &[String], met: bool, bar: &str) -> String {
    format!("| {} | {bar}{} |", cells.join(" | "), if met { "" } else { ", not met" })
}

#[cfg(test)]
mod tests;
