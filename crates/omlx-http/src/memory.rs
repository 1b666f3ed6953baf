//! What the memory guard sees, as `/api/status` and `/metrics` show it.

use prometheus::{Gauge, GaugeVec, IntCounter, Opts, Registry};
use serde::Serialize;

use crate::metrics::kept;

/// The memory of this process at one moment, and what being short of it has caused. Bytes, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// How much of the machine is taken: `safe`, `balanced`, `aggressive`, or `custom` for an amount.
    pub tier: &'static str,
    /// The most that this process may take, whoever takes the rest: what was set.
    pub most_bytes: u64,
    /// What has to stay available on the machine: what was set.
    pub spare_bytes: u64,
    /// How short memory is: `none`, `soft` (nobody is added to those who run) or `hard` (rows give way, newcomers are refused).
    pub pressure: &'static str,
    /// The most this process may take, as the other programs are now.
    pub limit_bytes: u64,
    /// What it takes.
    pub used_bytes: u64,
    /// What is left below the limit.
    pub headroom_bytes: u64,
    /// What is promised to the models' weights, caches and steps, taken or not.
    pub promised_bytes: u64,
    /// What may still be promised to a further model.
    pub room_bytes: u64,
    /// What cached blocks have given back to the system since the start.
    pub given_back_bytes: u64,
    /// Requests refused for lack of memory since the start.
    pub refused: u64,
    /// Requests that had to give way for lack of memory since the start, each time counted; they go on by themselves.
    pub parked: u64,
}

/// Adds the guard's numbers to a registry made for one answer.
pub(crate) fn gauges(memory: &Memory, registry: &Registry) {
    let gauge = |name: &str, help: &str, value: u64| {
        kept(registry, Gauge::new(name, help).expect("the name is valid")).set(value as f64);
    };
    let info = Opts::new("omlx:memory_guard_info", "1, with how much of the machine the guard lets this server take.");
    kept(registry, GaugeVec::new(info, &["tier"]).expect("the name is valid"))
        .with_label_values(&[memory.tier])
        .set(1.0);
    let pressure = match memory.pressure {
        "hard" => 2,
        "soft" => 1,
        _ => 0,
    };
    gauge("omlx:memory_pressure", "0: there is room; 1: near the limit; 2: above it.", pressure);
    gauge("omlx:memory_limit_bytes", "The most this process may take now.", memory.limit_bytes);
    gauge("omlx:memory_used_bytes", "What this process takes.", memory.used_bytes);
    gauge("omlx:memory_headroom_bytes", "What is left below the limit.", memory.headroom_bytes);
    gauge("omlx:memory_promised_bytes", "Promised to weights, caches and steps, taken or not.", memory.promised_bytes);
    gauge("omlx:memory_room_bytes", "What may still be promised to a further model.", memory.room_bytes);
    let counter = |name: &str, help: &str, value: u64| {
        kept(registry, IntCounter::new(name, help).expect("the name is valid")).inc_by(value);
    };
    counter("omlx:memory_given_back_bytes_total", "Given back by cached blocks.", memory.given_back_bytes);
    counter("omlx:memory_refused_total", "Requests refused for lack of memory.", memory.refused);
    counter("omlx:memory_parked_total", "Requests that had to give way for lack of memory.", memory.parked);
}
