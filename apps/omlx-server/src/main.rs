//! The server: configuration, then the models, then serving them.

mod attend;
mod caching;
mod catalog;
mod cli;
mod config;
mod find;
mod hints;
mod limit;
mod places;
mod serve;
mod shown;
mod start;
mod stored;

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Result;

fn main() -> ExitCode {
    spare();
    run().unwrap_or_else(|error| {
        if let Some(usage) = error.downcast_ref::<clap::Error>() {
            usage.exit();
        }
        let _ = writeln!(io::stderr(), "error: {}", shown::shown_lines(&told(&error)));
        ExitCode::FAILURE
    })
}

/// Leaves out the report of a panic that is caught and told as an error: a tokenizer file on which the library gives up.
fn spare() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !omlx_text::is_trying() {
            report(panic);
        }
    }));
}

/// An error and its causes on one line, each thing once. Never a backtrace, which says nothing to whoever mistyped a path.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told {
        told if told.is_empty() => cause,
        // many errors repeat their cause in their own words
        told if told.contains(&cause) => told,
        told => format!("{told}: {cause}"),
    })
}

fn run() -> Result<ExitCode> {
    let cli = match hints::read()? {
        hints::Typed::Serve(cli) => *cli,
        hints::Typed::Cache(stored) => {
            stored.run()?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let resolved = config::Resolved::new(cli)?;
    start::log(resolved.log_level);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ending = runtime.block_on(start::run(resolved));
    // Not waited for: a model that is still being loaded must not keep the process alive.
    runtime.shutdown_background();
    Ok(match ending? {
        serve::Ending::Clean => ExitCode::SUCCESS,
        serve::Ending::Cut => ExitCode::FAILURE,
    })
}
