//! The workspace's own chores, as `cargo xtask COMMAND`.
//!
//! One file per command. Everything heavy is done by shelling out to cargo and python3, so that this builds in seconds.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks to its user")]

mod bench;
mod demo;
mod dist;
mod golden;
mod load;
mod models;
mod server;
mod shell;
mod sim;
mod test;
mod tidy;

use std::process::ExitCode;

use shell::Failed;

const HELP: &str = "\
The workspace's own chores.

Usage: cargo xtask COMMAND [OPTIONS]

Start here
  demo              Fetch a small model, build the server, start it and print a ready request.
      --once            send one chat, print the answer, stop (what the tests use)
      --port N          first port to try, 8000 unless given
  test              Run every test there is, in one go: format, lints, units, properties, golden,
                    documentation, and the official Python client against the real server.
      --quick           without models and without the Python client

Models
  models [NAME...]  Fetch real models for tests and trials; all of the table unless named.
      --list            print the table and what is here
      --dir DIR         where to put them
      --gguf-only       do not make a Hugging Face folder of each

Scheduler
  sim               Run the scheduler's simulation: clients, failures and tiny pools, every invariant after each step.
      --steps N         at least so many steps, 2000000 unless given
      --seed S          the first seed, 0 unless given; a failure names its seed

Speed
  bench [FILE...]   Tokens per second through the whole engine; every GGUF file in the models folder unless named.
      --llama-cpp DIR   take turns with llama-bench and llama-batched-bench of that folder
      --rounds N        turns, 3 unless given; medians are printed
      --threads N       threads of both sides, one per core unless given
      --json FILE       write every figure

References
  golden [NAME...]  Make the tests' references anew with transformers, in a Python environment of its own (some hundred
                    MB, once), and write those that differ; tiny and real models, all unless named.
      --check           only say what differs, and fail if anything does
      --python PATH     use this interpreter, which has what fixtures/requirements.txt names, and make no environment

  load              Many clients at once on a real server: short and long prompts, streams, clients that leave.
                    Every answer has to be well formed, nothing may hang, memory may not grow.
      --clients N       64 unless given
      --minutes N       10 unless given
      --seed N          draws the same prompts again

House
  tidy              Check the rules of the house: layers, captions, sizes, names.
  dist              Build the release binary and try to publish every public crate, without doing so.

Environment
  OMLX_MODELS       where models are kept; else $XDG_CACHE_HOME/omlx/models or ~/.cache/omlx/models
  HF_ENDPOINT       the hub's address, if not the public one
  HF_TOKEN          a token for it
  OMLX_OFFLINE      if set, models must be there already
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = args.split_first().map(|(c, r)| (c.as_str(), r)).unwrap_or(("--help", &[]));
    let wants_help = rest.iter().any(|a| a == "--help" || a == "-h");
    let done = match command {
        _ if wants_help => help(),
        "bench" => bench::run(rest),
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "golden" => golden::run(rest),
        "load" => load::run(rest),
        "models" => models::run(rest),
        "sim" => sim::run(rest),
        "tidy" => tidy::run(rest),
        "dist" => dist::run(rest),
        "help" | "--help" | "-h" => help(),
        other => Err(Failed::usage(format!("there is no command `{other}`"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("\nxtask {command}: {failed}");
            ExitCode::FAILURE
        }
    }
}

fn help() -> Result<(), Failed> {
    print!("{HELP}");
    Ok(())
}
