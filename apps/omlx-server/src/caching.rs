//! The prefix cache beside the models: opened once at the start, and its last words at the end.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use omlx_api::EngineHandle;
use omlx_engine::guard::free_bytes;
use omlx_kv::Error;
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
        let (tiers, opened) = Tiers::open(&config).map_err(|error| match error {
            Error::FolderBudget { .. } => anyhow!(error).context("--cache-disk"),
            error => anyhow!(error).context("--cache-dir"),
        })?;
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
/// The folder need not be there yet.
fn space(folder: &Path) -> Result<u64> {
    let whole = std::path::absolute(folder).with_context(|| format!("--cache-dir {}", folder.display()))?;
    let there = whole.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    let own = match std::fs::read_dir(folder) {
        Ok(files) => files.flatten().filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum(),
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => bail!("--cache-dir {}: {error}", folder.display()),
    };
    let disk = rustix::fs::statvfs(there)
        .with_context(|| format!("--cache-dir {}: its disk does not say how much is free", folder.display()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_add(own))
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
