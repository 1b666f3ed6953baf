//! The store alone, by the examples that drive it: how fast blocks come back, and a folder of a million.

use std::process::Command;

use serde_json::Value;

use super::super::{Figures, median, output};
use super::{Plan, row};
use crate::shell::{self, Done, Failed};

/// What a restore is to have of a plain read.
const LEAST_SHARE: f64 = 0.8;
/// Seconds that a start, and microseconds that a look-up may take.
const LONGEST_START: f64 = 3.0;
const LONGEST_LOOKUP: f64 = 1000.0;

pub(super) fn restore(plan: &Plan) -> Done {
    let figures = example("tier_rate", plan, &["plain", "read", "restored"])?;
    println!("\n| from disk, cold | MB/s | of a plain read | bar |\n|---|---|---|---|");
    let plain = &figures["plain"];
    println!("| a plain sequential read of the files | {:.0} | 1 | – |", middle(plain));
    for (column, what) in [("read", "blocks handed over"), ("restored", "blocks taken into the KV cache")] {
        let shares: Vec<f64> = figures[column].iter().zip(plain).map(|(ours, plain)| ours / plain).collect();
        let share = middle(&shares);
        let cells = [what.to_owned(), format!("{:.0}", middle(&figures[column])), format!("{share:.2}")];
        println!("{}", row(&cells, share >= LEAST_SHARE, "at least 0.8"));
    }
    Ok(())
}

pub(super) fn index(plan: &Plan) -> Done {
    let figures = example("tier_index", plan, &["blocks", "start_s", "first_us", "again_us", "touch_us"])?;
    let value = |column: &str| middle(&figures[column]);
    println!("\n| index of {:.0} blocks | | bar |\n|---|---|---|", value("blocks"));
    let start = value("start_s");
    println!("{}", row(&["start, s".into(), format!("{start:.2}")], start < LONGEST_START, "below 3"));
    let lookups = [
        ("first_us", "a chain of 1,000 looked up, µs, at first"),
        ("again_us", "then"),
        ("touch_us", "counted as used"),
    ];
    for (column, what) in lookups {
        let took = value(column);
        println!("{}", row(&[what.into(), format!("{took:.0}")], took < LONGEST_LOOKUP, "below 1000"));
    }
    Ok(())
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// The figures of an example's rounds: one JSON object a line, with all of `columns`.
fn example(name: &str, plan: &Plan, columns: &[&str]) -> Done<Figures> {
    let mut command = Command::new(shell::target_dir()?.join("release/examples").join(name));
    command.arg(format!("rounds={}", plan.rounds)).arg(format!("folder={}", plan.folder.display()));
    gather(name, &output(&mut command)?, columns)
}

pub(super) fn gather(name: &str, lines: &str, columns: &[&str]) -> Done<Figures> {
    let mut figures = Figures::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).map_err(|e| Failed::new(format!("{name}: {e}")))?;
        for column in columns {
            let value = line[*column].as_f64().ok_or_else(|| Failed::new(format!("{name} does not say {column}")))?;
            figures.entry((*column).to_owned()).or_default().push(value);
        }
    }
    match figures.len() == columns.len() {
        true => Ok(figures),
        false => Err(Failed::new(format!("{name} says nothing"))),
    }
}
