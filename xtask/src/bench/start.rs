//! `bench start`: from the command to the first answer, which lists the model.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::models;
use crate::server::{self, Server};
use crate::shell::{self, Done, Failed, Flags};

const FIRST_PORT: u16 = 8150;

pub(super) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let rounds = flags.value("--rounds")?.map_or(Ok(5), str::parse);
    let rounds: usize = rounds.map_err(|_| Failed::usage("--rounds needs a number"))?;
    let names = flags.names()?;
    let all = if names.is_empty() { here()? } else { super::named(&names)? };
    shell::run(&mut shell::cargo(["build", "--release", "--workspace", "--bin", "omlx-server"]))?;
    println!("| model | median, s | longest, s |\n|---|---|---|");
    for model in all {
        start(&model)?; // reads the files into memory
        let times = (0..rounds.max(1)).map(|_| start(&model)).collect::<Done<Vec<f64>>>()?;
        let longest = times.iter().copied().fold(0.0, f64::max);
        println!("| {} | {:.2} | {longest:.2} |", super::name(&model), super::median(&times).unwrap_or(longest));
    }
    Ok(())
}

/// The models that were fetched, as files and as folders.
fn here() -> Done<Vec<PathBuf>> {
    let mut all = super::files(&[])?;
    let cache = models::cache()?;
    all.extend(models::names().map(|name| cache.join(name)).filter(|folder| folder.join("config.json").is_file()));
    Ok(all)
}

fn start(model: &Path) -> Done<f64> {
    let port = server::free_port(FIRST_PORT)?;
    let begin = Instant::now();
    let mut server = Server::start(model, port, &["--offline", "--log-level", "warn"])?;
    server.wait()?;
    let took = begin.elapsed().as_secs_f64();
    server.stop()?;
    Ok(took)
}
