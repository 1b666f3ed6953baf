//! The memory of the host before the disk, as one place to read from.
//!
//! A chain may lie in both, block by block; whoever reads does not care. Reads of the disk are timed, so that somebody can say
//! beforehand how long a restore will take: what counts is the time in which at least one of them is under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use omlx_blocks::BlockKey;

use super::{Block, BlockStore, End, Got, RamStore, StoreStats, Wanted};
use crate::Result;

/// What is believed of a disk before it was read: a plain solid-state one.
const PRIOR_BYTES: f64 = 64e6;
const PRIOR_SECONDS: f64 = 0.1;
/// Seconds of reading after which what was measured counts for half.
const MEMORY_SECONDS: f64 = 2.0;
/// What is left of a measurement each time that it was the reason not to read: one slow spell is not for ever.
const FORGIVENESS: f64 = 0.9;

/// Both places; reading only.
#[derive(Debug)]
pub(super) struct Layered {
    ram: Option<Arc<RamStore>>,
    disk: Option<Arc<dyn BlockStore>>,
    gauge: Mutex<Gauge>,
}

impl Layered {
    pub(super) fn new(ram: Option<Arc<RamStore>>, disk: Option<Arc<dyn BlockStore>>) -> Self {
        Self { ram, disk, gauge: Mutex::default() }
    }

    /// How long so many bytes take from disk, by what was seen of it.
    pub(super) fn disk_seconds(&self, bytes: u64) -> f64 {
        bytes as f64 / self.gauge().rate()
    }

    /// Somebody computes instead of reading, because reading is too slow.
    pub(super) fn declined(&self) {
        self.gauge().forgive();
    }

    fn gauge(&self) -> MutexGuard<'_, Gauge> {
        self.gauge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_ram(&self, key: &BlockKey) -> bool {
        self.ram.as_ref().is_some_and(|ram| ram.contains(key))
    }

    fn read_disk(&self, wanted: &[Wanted]) -> Got {
        let Some(disk) = &self.disk else {
            return Got { blocks: Vec::new(), end: End::Missing };
        };
        self.gauge().begin(Instant::now());
        let got = disk.get(wanted);
        let bytes = got.blocks.iter().map(|block| block.len() as u64).sum();
        self.gauge().end(Instant::now(), bytes);
        got
    }
}

impl BlockStore for Layered {
    fn get(&self, wanted: &[Wanted]) -> Got {
        let mut blocks = Vec::with_capacity(wanted.len());
        while blocks.len() < wanted.len() {
            let rest = &wanted[blocks.len()..];
            let here = rest.iter().take_while(|want| self.in_ram(&want.key)).count();
            let got = match (&self.ram, here) {
                (Some(ram), 1..) => ram.get(&rest[..here]),
                _ => {
                    let there = rest.iter().take_while(|want| !self.in_ram(&want.key)).count();
                    self.read_disk(&rest[..there])
                }
            };
            let came = got.blocks.len();
            blocks.extend(got.blocks);
            match got.end {
                End::All => {}
                // It was given up between the question and the answer: the disk may have it.
                End::Missing if here > 0 => {
                    let one = self.read_disk(&rest[came..=came]);
                    blocks.extend(one.blocks);
                    if !matches!(one.end, End::All) {
                        return Got { blocks, end: one.end };
                    }
                }
                end => return Got { blocks, end },
            }
        }
        Got { blocks, end: End::All }
    }

    fn put(&self, _: &[Block]) -> Result<()> {
        unreachable!("what is written goes to one of the two");
    }

    fn forget(&self, keys: &[BlockKey]) {
        self.ram.iter().for_each(|ram| ram.forget(keys));
        self.disk.iter().for_each(|disk| disk.forget(keys));
    }

    fn contains(&self, key: &BlockKey) -> bool {
        self.in_ram(key) || self.disk.as_ref().is_some_and(|disk| disk.contains(key))
    }

    fn leading(&self, keys: &[BlockKey]) -> usize {
        keys.iter().take_while(|key| self.contains(key)).count()
    }

    fn touch(&self, keys: &[BlockKey]) {
        self.ram.iter().for_each(|ram| ram.touch(keys));
        self.disk.iter().for_each(|disk| disk.touch(keys));
    }

    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}

/// Bytes and seconds of reading, old ones fading.
#[derive(Debug)]
struct Gauge {
    bytes: f64,
    seconds: f64,
    /// Reads under way, and since when there has been at least one.
    under_way: u32,
    since: Instant,
}

impl Default for Gauge {
    fn default() -> Self {
        Self { bytes: 0.0, seconds: 0.0, under_way: 0, since: Instant::now() }
    }
}

impl Gauge {
    fn begin(&mut self, now: Instant) {
        if self.under_way == 0 {
            self.since = now;
        }
        self.under_way += 1;
    }

    fn end(&mut self, now: Instant, bytes: u64) {
        self.under_way -= 1;
        let taken: Duration = now.saturating_duration_since(self.since);
        self.since = now; // what is still under way goes on from here
        self.seconds += taken.as_secs_f64();
        self.bytes += bytes as f64;
        if self.seconds > MEMORY_SECONDS {
            self.seconds /= 2.0;
            self.bytes /= 2.0;
        }
    }

    fn forgive(&mut self) {
        self.bytes *= FORGIVENESS;
        self.seconds *= FORGIVENESS;
    }

    /// Bytes a second.
    fn rate(&self) -> f64 {
        (self.bytes + PRIOR_BYTES) / (self.seconds + PRIOR_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    //! Seen to fail: reads side by side counted as if one after the other; a measurement that is never forgiven.

    use super::*;

    #[test]
    fn reads_side_by_side_take_their_time_once() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut gauge = Gauge::default();
        gauge.begin(at(0));
        gauge.begin(at(10));
        gauge.end(at(100), 50_000_000);
        gauge.end(at(110), 50_000_000);
        gauge.begin(at(900)); // nothing was under way in between
        gauge.end(at(990), 100_000_000);
        assert!((gauge.seconds - 0.2).abs() < 1e-9, "{gauge:?}");
        assert!((gauge.rate() - 264e6 / 0.3).abs() < 1e3, "{gauge:?}");
    }

    #[test]
    fn a_slow_spell_is_forgiven() {
        let begin = Instant::now();
        let mut gauge = Gauge::default();
        gauge.begin(begin);
        gauge.end(begin + Duration::from_secs(1), 1_000_000);
        let slow = gauge.rate();
        (0..60).for_each(|_| gauge.forgive());
        assert!(slow < 0.1 * PRIOR_BYTES / PRIOR_SECONDS && gauge.rate() > 0.9 * PRIOR_BYTES / PRIOR_SECONDS);
    }
}
