//! `bench step`: what a decode step takes, and how much of it the model does not compute.

use std::process::Command;

use super::{Figures, files, median, name, note, output};
use crate::shell::{self, Done, Failed, Flags};

pub(super) fn run(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let rounds = flags.value("--rounds")?.map_or(Ok(3), str::parse);
    let rounds: usize = rounds.map_err(|_| Failed::usage("--rounds needs a number"))?;
    let threads = flags.value("--threads")?.unwrap_or("0").to_owned();
    let files = files(&flags.names()?)?;
    super::build()?;
    println!("| model | streams | step, ms | of it host, ms | host |\n|---|---|---|---|---|");
    for file in &files {
        let mut figures = Figures::new();
        for _ in 0..rounds.max(1) {
            let mut command = Command::new(shell::target_dir()?.join("release/examples/throughput"));
            command.arg(file).arg(format!("threads={threads}")).arg("prompt=16");
            for line in output(&mut command)?.lines() {
                note(&mut figures, &serde_json::from_str(line).map_err(|e| Failed::new(format!("throughput: {e}")))?);
            }
        }
        for streams in [1, 8] {
            println!("{}", row(&name(file), streams, &figures));
        }
    }
    Ok(())
}

fn row(name: &str, streams: u32, figures: &Figures) -> String {
    let of = |column: &str| figures.get(&format!("{column}_b{streams}")).and_then(|values| median(values));
    let (Some(rate), Some(host)) = (of("tg"), of("host")) else {
        return format!("| {name} | {streams} | – | – | – |");
    };
    let step = 1e3 * f64::from(streams) / rate;
    format!("| {name} | {streams} | {step:.2} | {:.3} | {:.1} % |", step * host, 100.0 * host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_makes_a_token_for_every_stream() {
        let figures = Figures::from([("tg_b8".into(), vec![400.0, 100.0, 200.0]), ("host_b8".into(), vec![0.01])]);
        assert_eq!(row("m", 8, &figures), "| m | 8 | 40.00 | 0.400 | 1.0 % |");
        assert_eq!(row("m", 1, &figures), "| m | 1 | – | – | – |");
    }
}
