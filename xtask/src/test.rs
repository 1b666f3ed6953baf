//! `test`: every test there is, in the order in which a mistake is cheapest to find.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::shell::{self, Done, Failed, Flags};
use crate::{dist, models};

/// The script that drives the server with the official Python clients.
const CLIENT: &str = "apps/omlx-server/tests/python_clients.py";

/// One thing to run.
struct Step {
    name: &'static str,
    command: Command,
}

/// Its part of the help.
pub(crate) const HELP: &str =
    "  test              Run every test there is, in one go: format, lints, units, properties, golden,
                    documentation, packages, and the official Python clients against the real server.
      --quick           without what needs a network: models, packages, the Python clients
";

/// `cargo xtask test`.
pub(crate) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let quick = flags.switch("--quick");
    flags.end()?;

    let mut rows = Vec::new();
    let mut failed = 0;
    if !quick {
        heading("models");
        println!("$ cargo xtask models");
        let start = Instant::now();
        let fetched = models::run(&[]);
        failed += row(&mut rows, "models", start, &fetched);
    }
    for mut step in steps(quick)? {
        heading(step.name);
        let start = Instant::now();
        let done = shell::run_aloud(&mut step.command);
        failed += row(&mut rows, step.name, start, &done);
    }
    heading("summary");
    rows.iter().for_each(|row| println!("{row}"));
    match failed {
        0 => Ok(()),
        n => Err(Failed::new(format!("{n} of {} steps failed", rows.len()))),
    }
}

fn heading(name: &str) {
    println!("\n== {name}");
}

/// Notes how a step went; answers 1 if it failed.
fn row(rows: &mut Vec<String>, name: &str, start: Instant, done: &Done) -> usize {
    let seconds = start.elapsed().as_secs_f32();
    match done {
        Ok(()) => rows.push(format!("ok      {name:20} {seconds:7.1} s")),
        Err(why) => {
            println!("{why}");
            rows.push(format!("FAILED  {name:20} {seconds:7.1} s  {why}"));
        }
    }
    usize::from(done.is_err())
}

fn steps(quick: bool) -> Done<Vec<Step>> {
    let step = |name, args: &[&str]| Step { name, command: shell::cargo(args) };
    let mut steps = vec![
        step("format", &["fmt", "--all", "--check"]),
        step("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        match has_nextest() {
            true => step("tests", &["nextest", "run", "--workspace", "--no-fail-fast"]),
            false => step("tests", &["test", "--workspace", "--all-targets", "--no-fail-fast"]),
        },
        step("documentation", &["test", "--workspace", "--doc"]),
    ];
    if !quick {
        // asks the registry's index
        steps.push(Step { name: "packages", command: dist::packaging()? });
        let mut client = Command::new("python3");
        // the binary that the tests have built: a release build would compile everything once more
        client.arg(CLIENT).arg("--server").arg(shell::target_dir()?.join("debug/omlx-server"));
        client.current_dir(shell::root());
        steps.push(Step { name: "python clients", command: client });
        let dir = models::cache()?;
        for step in &mut steps {
            // tests that need a model then fail without it, where else they would pass over it
            step.command.env("OMLX_MODELS", &dir).env("OMLX_REQUIRE_MODELS", "1");
        }
    }
    Ok(steps)
}

/// Whether the faster test runner is installed; it also runs each test in a process of its own.
fn has_nextest() -> bool {
    let mut probe = shell::cargo(["nextest", "--version"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}
