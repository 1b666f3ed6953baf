//! `kills`: a server with a prefix cache on disk, killed under load as often as one likes.

use crate::models;
use crate::shell::{self, Done, Failed, Flags};

/// Rounds unless told otherwise.
const ROUNDS: u64 = 100;

/// Its part of the help.
pub(crate) const HELP: &str = "  kills             Kill a server under load, start it again, and compare its answers with those of one without a cache.
      --rounds N        100 unless given
      --seed S          draws the same prompts and moments again, 0 unless given
      --model NAME      one of `cargo xtask models`; a random tiny one with windows and one without unless given
";

/// `cargo xtask kills`.
pub(crate) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let mut number = |name: &str, unless: u64| match flags.value(name)? {
        Some(given) => given.parse().map_err(|_| Failed::usage(format!("{name} {given} is not a number"))),
        None => Ok(unless),
    };
    let (rounds, seed) = (number("--rounds", ROUNDS)?, number("--seed", 0)?);
    let model = flags.value("--model")?.map(str::to_owned);
    flags.end()?;

    let mut command = shell::cargo(["test", "--workspace", "--test", "whole", "--quiet", "--"]);
    command.args(["--exact", "kills::a_killed_server_finds_what_is_whole_and_nothing_else", "--nocapture"]);
    command.env("KILLS_ROUNDS", rounds.to_string()).env("KILLS_SEED", seed.to_string());
    if let Some(model) = model {
        // below a folder of its own, which is what the server is given
        command.env("KILLS_MODEL", models::ensure(&model)?);
    }
    println!("{rounds} rounds from seed {seed}");
    shell::run(&mut command)
}
