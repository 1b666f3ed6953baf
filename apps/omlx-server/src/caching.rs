//! The prefix cache beside the models: opened once at the start, and its last words at the end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use omlx_api::EngineHandle;
use omlx_engine::guard::free_bytes;
use omlx_kv::tier::{DiskConfig, Tiers, TiersConfig};

use crate::config::{Memory, readable};

/// How long the end waits for what is still to be written.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// What the user wants to be kept of prompts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Caching {
    /// In memory, beside the models' KV caches.
    pub(crate) ram: Option<Memory>,
    /// On disk: where, and how much.
    pub(crate) disk: Option<(PathBuf, Memory)>,
}

impl Caching {
    /// Opens the places; `room_bytes` is what the guard leaves, where one watches.
    pub(crate) fn open(&self, room_bytes: Option<u64>) -> Result<Option<Arc<Tiers>>> {
        if self.ram.is_none() && self.disk.is_none() {
            return Ok(None);
        }
        // Without a word from the system only a fixed amount is safe.
        let free = free_bytes().unwrap_or(1 << 30);
        let free = room_bytes.map_or(free, |room| room.min(free));
        let mut config = TiersConfig::new(self.ram.map_or(0, |ram| ram.of(free)));
        if let Some((folder, budget)) = &self.disk {
            let budget_bytes = budget.of(space(folder)?);
            config.disk = Some(DiskConfig::new(folder.clone(), budget_bytes));
        }
        let (tiers, opened) = Tiers::open(&config).context("--cache-dir")?;
        if let (Some(opened), Some((folder, _))) = (opened, &self.disk) {
            let folder = folder.display();
            if opened.is_worth_a_warning() {
                tracing::warn!("prefix cache in {folder}: {opened}");
            } else {
                tracing::info!("prefix cache in {folder}: {opened}");
            }
        }
        Ok(Some(Arc::new(tiers)))
    }
}

/// Bytes that are free on the disk of a folder, and those that the folder takes itself: its budget must not shrink as it fills.
fn space(folder: &std::path::Path) -> Result<u64> {
    std::fs::create_dir_all(folder).with_context(|| format!("--cache-dir {}: it cannot be made", folder.display()))?;
    let own: u64 = std::fs::read_dir(folder)
        .with_context(|| format!("--cache-dir {}: it cannot be read", folder.display()))?
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|meta| meta.len())
        .sum();
    #[cfg(unix)]
    {
        let stat = rustix::fs::statvfs(folder)
            .with_context(|| format!("--cache-dir {}: its disk does not say how much is free", folder.display()))?;
        Ok(own.saturating_add(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }
    #[cfg(not(unix))]
    Ok(own.saturating_add(10 << 30))
}

/// Waits until the engines have said what is worth keeping and all of it is written; for a while.
pub(crate) async fn close(tiers: Arc<Tiers>, engines: Vec<(String, EngineHandle)>) {
    tiers.close_ram();
    engines.iter().for_each(|(_, engine)| engine.stop());
    if !tiers.has_disk() {
        return;
    }
    let end = Instant::now() + LAST_WRITES;
    while engines.iter().any(|(_, engine)| engine.is_alive()) && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let left = end.saturating_duration_since(Instant::now());
    let flushing = Arc::clone(&tiers);
    let flushed = tokio::task::spawn_blocking(move || flushing.flush(left)).await;
    if !matches!(flushed, Ok(true)) {
        let waiting = tiers.stats().writer.map_or(0, |writer| writer.waiting_bytes);
        tracing::warn!("the disk is too slow: {} of the prefix cache are not written", readable(waiting));
    }
}

impl std::fmt::Display for Caching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let share = |memory: &Memory, of: &str| match memory {
            Memory::Bytes(_) => memory.to_string(),
            Memory::Percent(_) => format!("{memory} of free {of}"),
        };
        match (&self.ram, &self.disk) {
            (None, None) => f.write_str("off"),
            (Some(ram), None) => write!(f, "{} (--cache-dir keeps more, also over a restart)", share(ram, "memory")),
            (None, Some((folder, disk))) => write!(f, "{}, {}", folder.display(), share(disk, "disk")),
            (Some(ram), Some((folder, disk))) => {
                write!(f, "{}; {}, {}", share(ram, "memory"), folder.display(), share(disk, "disk"))
            }
        }
    }
}
