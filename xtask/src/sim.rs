//! `sim`: any number of simulated scheduler steps, from any seed.

use crate::shell::{self, Done, Failed, Flags};

/// Steps unless told otherwise: about a minute on two cores.
const STEPS: u64 = 2_000_000;

/// Its part of the help.
pub(crate) const HELP: &str = "  sim               Run the scheduler's simulation: clients, failures and tiny pools, every invariant after each step.
      --steps N         at least so many steps, 2000000 unless given
      --seed S          the first seed, 0 unless given; a failure names its seed
";

/// `cargo xtask sim`.
pub(crate) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let mut number = |name: &str, unless: u64| match flags.value(name)? {
        Some(given) => given.parse().map_err(|_| Failed::usage(format!("{name} {given} is not a number"))),
        None => Ok(unless),
    };
    let (steps, seed) = (number("--steps", STEPS)?, number("--seed", 0)?);
    flags.end()?;

    // the profile of tests: optimised all the same, and overflows are seen
    let mut command = shell::cargo(["test", "-p", "omlx-sched", "--test", "sim", "--quiet", "--"]);
    command.args(["--exact", "many_steps", "--nocapture"]);
    command.env("STEPS", steps.to_string()).env("SEED", seed.to_string());
    println!("at least {steps} steps from seed {seed}");
    shell::run(&mut command)
}
