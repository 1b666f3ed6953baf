//! The memory guard as it is shown to the owner.

use std::time::Instant;

use omlx_engine::guard::{Guard, Strain};
use omlx_http::Memory;

/// What the guard sees now.
pub(super) fn seen(guard: &Guard) -> Memory {
    let now = guard.status(Instant::now());
    Memory {
        tier: now.limits.name(),
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
