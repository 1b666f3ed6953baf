//! What the prefix cache beside the engines holds and has done, as `/api/status` and `/metrics` show it.

use prometheus::{GaugeVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use serde::Serialize;

use crate::metrics::kept;

/// The places where prefixes are kept beside the engines' own caches. Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prefixes {
    /// Memory; null where none is used.
    pub ram: Option<Shelf>,
    /// Disk; null where none is used.
    pub disk: Option<Shelf>,
    /// Blocks brought back into an engine's cache.
    pub restored_blocks: u64,
    /// Their bytes.
    pub restored_bytes: u64,
    /// Prefixes that were computed although they were here, since that was quicker.
    pub declined: u64,
    /// Blocks that wait to be written to disk.
    pub waiting_blocks: u64,
    /// Blocks that were to be written to disk and were not: too slow, full or failing.
    pub unwritten_blocks: u64,
    /// Whether writing is off for a while, since the disk has refused it.
    pub writing_off: bool,
}

/// One place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shelf {
    /// Blocks that can be used now.
    pub blocks: u64,
    /// Bytes taken.
    pub bytes: u64,
    /// The most bytes that may be taken.
    pub budget_bytes: u64,
    /// Blocks given out.
    pub hits: u64,
    /// Blocks given up for others.
    pub evicted: u64,
    /// Blocks found damaged.
    pub bad: u64,
    /// Reads that the system refused.
    pub read_errors: u64,
}

/// Adds the numbers to a registry made for one answer.
pub(crate) fn gauges(prefixes: &Prefixes, registry: &Registry) {
    let places = [("ram", prefixes.ram), ("disk", prefixes.disk)];
    let gauge = |name: &str, help: &str, value: fn(&Shelf) -> u64| {
        let gauge = kept(registry, GaugeVec::new(Opts::new(name, help), &["place"]).expect("the name is valid"));
        for (place, shelf) in places {
            shelf.iter().for_each(|shelf| gauge.with_label_values(&[place]).set(value(shelf) as f64));
        }
    };
    gauge("omlx:prefix_blocks", "Blocks of prompts that are kept beside the engines.", |shelf| shelf.blocks);
    gauge("omlx:prefix_bytes", "What they take.", |shelf| shelf.bytes);
    gauge("omlx:prefix_budget_bytes", "The most they may take.", |shelf| shelf.budget_bytes);
    let counters = |name: &str, help: &str, value: fn(&Shelf) -> u64| {
        let counter = kept(registry, IntCounterVec::new(Opts::new(name, help), &["place"]).expect("the name is valid"));
        for (place, shelf) in places {
            shelf.iter().for_each(|shelf| counter.with_label_values(&[place]).inc_by(value(shelf)));
        }
    };
    counters("omlx:prefix_hits_total", "Blocks given out.", |shelf| shelf.hits);
    counters("omlx:prefix_evicted_total", "Blocks given up for others.", |shelf| shelf.evicted);
    counters("omlx:prefix_bad_total", "Blocks found damaged.", |shelf| shelf.bad);
    counters("omlx:prefix_read_errors_total", "Reads that the system refused.", |shelf| shelf.read_errors);
    let counter = |name: &str, help: &str, value: u64| {
        kept(registry, IntCounter::new(name, help).expect("the name is valid")).inc_by(value);
    };
    counter("omlx:prefix_restored_blocks_total", "Blocks brought back into a cache.", prefixes.restored_blocks);
    counter("omlx:prefix_restored_bytes_total", "Their bytes.", prefixes.restored_bytes);
    counter("omlx:prefix_declined_total", "Prefixes computed although they were kept.", prefixes.declined);
    counter("omlx:prefix_unwritten_blocks_total", "Blocks that did not get to the disk.", prefixes.unwritten_blocks);
    let number = |name: &str, help: &str, value: u64| {
        kept(registry, IntGauge::new(name, help).expect("the name is valid")).set(value.cast_signed());
    };
    number("omlx:prefix_waiting_blocks", "Blocks that wait to be written to disk.", prefixes.waiting_blocks);
    number(
        "omlx:prefix_writing_off",
        "1 while nothing is written, since the disk has refused it.",
        prefixes.writing_off.into(),
    );
}
