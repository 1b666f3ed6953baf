//! The memory guard and the prefix cache as they are shown to the owner.

use std::time::Instant;

use omlx_engine::guard::{Guard, Strain};
use omlx_http::{GuardError, Memory, Prefixes, Shelf};
use omlx_kv::tier::{StoreStats, Tiers};

use crate::config::Guarding;

/// What the guard sees now.
pub(super) fn seen(guard: &Guard) -> Memory {
    let now = guard.status(Instant::now());
    Memory {
        tier: now.limits.name(),
        most_bytes: now.limits.most_bytes,
        spare_bytes: now.limits.spare_bytes,
        pressure: match now.reading.strain {
            Strain::None => "none",
            Strain::Soft => "soft",
            Strain::Hard => "hard",
        },
        limit_bytes: now.reading.limit_bytes,
        used_bytes: now.reading.used_bytes,
        headroom_bytes: now.reading.limit_bytes.saturating_sub(now.reading.used_bytes),
        promised_bytes: now.promised_bytes,
        room_bytes: now.room_bytes,
        given_back_bytes: now.given_back_bytes,
        refused: now.refused,
        parked: now.parked,
    }
}

/// Has the guard keep to what these words come to, those of `--memory-guard`, and answers what it sees then.
pub(super) fn keep_to(guard: &Guard, words: &str) -> Result<Memory, GuardError> {
    let fault = |reason: String| GuardError::Words { reason };
    let wish = words.parse::<Guarding>().map_err(|not| fault(format!("{not}, found {:?}", shortened(words))))?;
    if wish == Guarding::Off {
        // The engines' memory is promised, and whoever asks how much may still be is answered by the limits.
        return Err(fault(
            "off is for the start of the server (--memory-guard off); while it runs, 100% is the most".to_owned(),
        ));
    }
    let guarded = wish.resolve();
    guard.set_limits(guarded.limits.ok_or_else(|| fault(guarded.to_string()))?);
    tracing::info!("memory guard set to {guarded}");
    Ok(seen(guard))
}

/// As much of the words as an answer repeats.
fn shortened(words: &str) -> String {
    words.chars().take(40).collect()
}

/// What is kept of prompts beside the engines.
pub(super) fn kept(tiers: &Tiers) -> Prefixes {
    let shelf = |stats: StoreStats| Shelf {
        blocks: stats.blocks,
        bytes: stats.bytes,
        budget_bytes: stats.budget_bytes,
        hits: stats.hits,
        evicted: stats.evicted,
        bad: stats.bad,
        read_errors: stats.read_errors,
    };
    let now = tiers.stats();
    let (disk, writer) = (now.disk.unwrap_or_default(), now.writer.unwrap_or_default());
    Prefixes {
        ram: now.ram.map(shelf),
        disk: now.disk.map(shelf),
        restored_blocks: now.restored,
        restored_bytes: now.restored_bytes,
        declined: now.declined,
        waiting_blocks: writer.waiting,
        unwritten_blocks: now.unwritten + writer.skipped + writer.failed + disk.refused + disk.skipped,
        writing_off: disk.writing_off,
    }
}
