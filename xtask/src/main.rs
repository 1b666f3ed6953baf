//! The workspace's own chores, as `cargo xtask COMMAND`.
//!
//! One file per command. Everything heavy is done by shelling out to cargo and python3, so that there is little to build.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks to its user")]

mod bench;
mod children;
mod demo;
mod dist;
mod golden;
mod kills;
mod load;
mod models;
mod server;
mod shell;
mod sim;
mod test;
mod tidy;

use std::process::ExitCode;

use shell::{Done, Failed};

/// One command: its name, its own part of the help, and what it does.
struct Chore {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Done,
}

const fn chore(name: &'static str, help: &'static str, run: fn(&[String]) -> Done) -> Chore {
    Chore { name, help, run }
}

/// All commands under their headings, in the order of the help.
const CHORES: [(&str, &[Chore]); 6] = [
    ("Start here", &[chore("demo", demo::HELP, demo::run), chore("test", test::HELP, test::run)]),
    ("Models", &[chore("models", models::HELP, models::run)]),
    (
        "Scheduler and server",
        &[
            chore("sim", sim::HELP, sim::run),
            chore("load", load::HELP, load::run),
            chore("kills", kills::HELP, kills::run),
        ],
    ),
    ("Speed", &[chore("bench", bench::HELP, bench::run)]),
    ("References", &[chore("golden", golden::HELP, golden::run)]),
    ("House", &[chore("tidy", tidy::HELP, tidy::run), chore("dist", dist::HELP, dist::run)]),
];

const ENVIRONMENT: &str = "\
Environment
  OMLX_MODELS       where models are kept; else $XDG_CACHE_HOME/omlx/models or ~/.cache/omlx/models
  HF_ENDPOINT       the hub's address, if not the public one
  HF_TOKEN          a token for it
  OMLX_OFFLINE      if set, models must be there already
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = args.split_first().map(|(c, r)| (c.as_str(), r)).unwrap_or(("--help", &[]));
    match answer(command, rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("\nxtask {command}: {failed}");
            ExitCode::FAILURE
        }
    }
}

fn answer(command: &str, rest: &[String]) -> Done {
    if ["help", "--help", "-h"].contains(&command) {
        let text = match rest.first() {
            Some(name) if !name.starts_with('-') => help_of(find(name)?),
            _ => help(),
        };
        print!("{text}");
        return Ok(());
    }
    let chore = find(command)?;
    if rest.iter().any(|a| a == "--help" || a == "-h") {
        print!("{}", help_of(chore));
        return Ok(());
    }
    (chore.run)(rest)
}

fn find(name: &str) -> Done<&'static Chore> {
    let mut all = CHORES.iter().flat_map(|(_, chores)| chores.iter());
    all.find(|chore| chore.name == name).ok_or_else(|| Failed::usage(format!("there is no command `{name}`")))
}

/// Everything.
fn help() -> String {
    let mut text = "The workspace's own chores.\n\nUsage: cargo xtask COMMAND [OPTIONS]\n".to_owned();
    for (heading, chores) in CHORES {
        text += &format!("\n{heading}\n");
        chores.iter().for_each(|chore| text += chore.help);
    }
    text + "\n`cargo xtask COMMAND --help` shows one of them.\n\n" + ENVIRONMENT
}

/// One command.
fn help_of(chore: &Chore) -> String {
    // what is left of the first gap of two spaces: the name, and the arguments it takes
    let usage = chore.help.trim_start().split("  ").next().unwrap_or(chore.name);
    let options = if chore.help.contains("\n      --") { " [OPTIONS]" } else { "" };
    format!("Usage: cargo xtask {usage}{options}\n\n{}\n{ENVIRONMENT}", chore.help)
}

#[cfg(test)]
mod tests;
