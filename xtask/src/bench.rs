//! `bench`: tokens per second of real models, beside llama.cpp on the same file in the same run.
//!
//! Machines are shared and noisy, so both sides take turns for several rounds and medians and ratios are what counts.

mod cache;
mod start;
mod step;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::children;
use crate::models;
use crate::shell::{self, Done, Failed, Flags};

/// What is measured, as (column, what it is).
const COLUMNS: [(&str, &str); 4] = [
    ("pp512", "prefill of 512 tokens"),
    ("pp_b8", "prefill of eight prompts of 128 together"),
    ("tg_b1", "decode, one stream, 64 tokens after 128"),
    ("tg_b8", "decode, eight streams together"),
];

/// Shares that only our side tells: of the steps' time, that in which the model did not compute.
const SHARES: [(&str, &str); 2] = [("host_b1", "one stream"), ("host_b8", "eight streams")];

/// Figures of one side over all rounds, by column.
type Figures = BTreeMap<String, Vec<f64>>;

/// Its part of the help.
pub(crate) const HELP: &str =
    "  bench [FILE...]   Tokens per second through the whole engine; every GGUF file in the models folder unless named.
      --llama-cpp DIR   take turns with llama-bench and llama-batched-bench of that folder
      --rounds N        turns, 3 unless given; medians are printed
      --threads N       threads of both sides, one per core unless given
      --json FILE       write every figure
  bench step [FILE...]  What a decode step takes, and how much of it the model does not compute.
      --rounds N, --threads N
  bench start [MODEL...]  From the command to the first answer; every fetched model unless named.
      --rounds N        starts of each after one that does not count, 5 unless given
  bench cache [PART...]  What stored prefixes cost and save: restore, index, first, behind; all unless named.
      --folder DIR      where blocks are stored meanwhile, the system's temporary folder unless given
      --model FILE      another than SmolLM2-135M-Instruct
      --rounds N
";

/// `cargo xtask bench`.
pub(crate) fn run(args: &[String]) -> Done {
    match args.first().map(String::as_str) {
        Some("start") => start::run(&args[1..]),
        Some("cache") => cache::run(&args[1..]),
        Some("step") => step::run(&args[1..]),
        _ => throughput(args),
    }
}

fn throughput(args: &[String]) -> Done {
    let mut flags = Flags::new(args);
    let peer = flags.value("--llama-cpp")?.map(PathBuf::from);
    let rounds = flags.value("--rounds")?.map_or(Ok(3), str::parse);
    let rounds: usize = rounds.map_err(|_| Failed::usage("--rounds needs a number"))?;
    let out = flags.value("--json")?.map(PathBuf::from);
    let threads = flags.value("--threads")?.unwrap_or("0").to_owned();
    let files = files(&flags.names()?)?;
    build()?;
    println!("{}", header(peer.is_some()));
    let mut report = serde_json::Map::new();
    for file in &files {
        let (ours, theirs) = rounds_of(file, peer.as_deref(), rounds, &threads)?;
        println!("{}", row(file, &ours, peer.as_ref().map(|_| &theirs)));
        let sides = serde_json::json!({ "omlx": ours, "llama.cpp": theirs });
        report.insert(name(file), sides);
    }
    for (column, what) in COLUMNS {
        println!("{column}: {what}, tokens per second");
    }
    for (column, what) in SHARES {
        println!("{column}: share of a step in which the model does not compute, {what}");
    }
    if let Some(path) = out {
        let text = format!("{:#}\n", Value::Object(report));
        std::fs::write(&path, text).map_err(Failed::at(&path))?;
    }
    Ok(())
}

/// As every other build, so that nothing is built twice.
fn build() -> Done {
    shell::run(&mut shell::cargo(["build", "--release", "--workspace", "--example", "throughput"]))
}

/// The models named, which have to be there before anything is built.
fn named(names: &[&str]) -> Done<Vec<PathBuf>> {
    match names.iter().find(|name| !Path::new(name).exists()) {
        Some(name) => Err(Failed::new(format!("there is no file or folder {name}"))),
        None => Ok(names.iter().map(PathBuf::from).collect()),
    }
}

/// The GGUF files named, or all in the models folder.
fn files(names: &[&str]) -> Done<Vec<PathBuf>> {
    if !names.is_empty() {
        return named(names);
    }
    let dir = models::cache()?.join("gguf");
    let entries = std::fs::read_dir(&dir).map_err(Failed::at(&dir))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "gguf"));
    files.sort();
    match files.is_empty() {
        true => Err(Failed::new("no models to measure; run `cargo xtask models` first")),
        false => Ok(files),
    }
}

/// Both sides in turn.
fn rounds_of(file: &Path, peer: Option<&Path>, rounds: usize, threads: &str) -> Done<(Figures, Figures)> {
    let (mut ours, mut theirs) = (Figures::new(), Figures::new());
    for _ in 0..rounds {
        let mut command = Command::new(shell::target_dir()?.join("release/examples/throughput"));
        command.arg(file).arg(format!("threads={threads}"));
        for line in output(&mut command)?.lines() {
            note(&mut ours, &serde_json::from_str(line).map_err(|e| Failed::new(format!("throughput: {e}")))?);
        }
        if let Some(bin) = peer {
            llama(bin, file, threads, &mut theirs)?;
        }
    }
    Ok((ours, theirs))
}

fn note(figures: &mut Figures, line: &Value) {
    for (column, _) in COLUMNS.into_iter().chain(SHARES) {
        if let Some(value) = line[column].as_f64() {
            figures.entry(column.to_owned()).or_default().push(value);
        }
    }
}

/// llama.cpp's own two benchmarks with the same shapes.
fn llama(bin: &Path, file: &Path, threads: &str, figures: &mut Figures) -> Done {
    let threads = match threads {
        "0" => std::thread::available_parallelism().map_or(1, usize::from).to_string(),
        given => given.to_owned(),
    };
    let mut prefill = Command::new(bin.join("llama-bench"));
    prefill.arg("-m").arg(file).args(["-p", "512", "-n", "0", "-r", "1", "-o", "jsonl", "-t", &threads]);
    for line in output(&mut prefill)?.lines() {
        let line: Value = serde_json::from_str(line).map_err(|e| Failed::new(format!("llama-bench: {e}")))?;
        note(figures, &serde_json::json!({ "pp512": line["avg_ts"] }));
    }
    let mut decode = Command::new(bin.join("llama-batched-bench"));
    decode.arg("-m").arg(file).args(["-npp", "128", "-ntg", "64", "-npl", "1,8", "-c", "4096", "-t", &threads]);
    decode.args(["--output-format", "jsonl"]);
    for line in output(&mut decode)?.lines().filter(|l| l.starts_with('{')) {
        let line: Value = serde_json::from_str(line).map_err(|e| Failed::new(format!("llama-batched-bench: {e}")))?;
        let streams = &line["pl"];
        let (prefill, decode) = (format!("pp_b{streams}"), format!("tg_b{streams}"));
        note(figures, &serde_json::json!({ prefill: line["speed_pp"], decode: line["speed_tg"] }));
    }
    Ok(())
}

/// What a command prints on its standard output.
fn output(command: &mut Command) -> Done<String> {
    let output = children::output(command).map_err(|e| Failed::new(format!("`{}`: {e}", shell::typed(command))))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Failed::new(format!("`{}` failed: {}", shell::typed(command), why.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".gguf").unwrap_or(&name).to_owned()
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn header(peer: bool) -> String {
    let mut line = String::from("| model |");
    let mut rule = String::from("|---|");
    for (column, _) in COLUMNS {
        line += &format!(" {column} |");
        rule += "---|";
        if peer {
            line += " llama.cpp | ratio |";
            rule += "---|---|";
        }
    }
    for (column, _) in SHARES {
        line += &format!(" {column} |");
        rule += "---|";
    }
    format!("{line}\n{rule}")
}

/// Medians of ours, theirs, and the median of the rounds' ratios.
fn row(file: &Path, ours: &Figures, theirs: Option<&Figures>) -> String {
    let mut line = format!("| {} |", name(file));
    let show = |value: Option<f64>| value.map_or_else(|| " – |".to_owned(), |v| format!(" {v:.0} |"));
    for (column, _) in COLUMNS {
        let mine = ours.get(column).map_or(&[][..], Vec::as_slice);
        line += &show(median(mine));
        if let Some(theirs) = theirs {
            let other = theirs.get(column).map_or(&[][..], Vec::as_slice);
            let ratios: Vec<f64> = mine.iter().zip(other).map(|(a, b)| a / b).collect();
            line += &show(median(other));
            line += &median(&ratios).map_or_else(|| " – |".to_owned(), |r| format!(" {r:.2} |"));
        }
    }
    for (column, _) in SHARES {
        let share = ours.get(column).and_then(|shares| median(shares));
        line += &share.map_or_else(|| " – |".to_owned(), |share| format!(" {:.1} % |", 100.0 * share));
    }
    line
}

#[cfg(test)]
mod tests;
