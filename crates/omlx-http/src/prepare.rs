//! Long work on text, away from the threads that serve connections, and only so much of it at a time.

use std::sync::Arc;

use crate::error::Error;
use crate::router::App;

/// Text that is prepared at the same time, in KiB; a larger one is prepared alone. Encoding takes a few hundred bytes per byte.
pub(crate) const PREPARING_KIB: u32 = 4 << 10;

/// Runs `encode`, which may take long, away from the threads that serve connections. Waits while much is being prepared; who
/// leaves while it waits costs nothing. `encode` may give up on a text that is certain to fill the `context`, and on no other: whether
/// one that only memory is too small for fills the context too decides what its client is told.
pub(crate) async fn prepare<T: Send + 'static>(
    app: &App,
    (param, context): (&'static str, usize),
    bytes: usize,
    encode: impl FnOnce() -> omlx_text::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).clamp(1, PREPARING_KIB);
    let room = Arc::clone(&app.preparing).acquire_many_owned(kib).await.expect("the semaphore is never closed");
    let work = move || {
        let _room = room;
        encode()
    };
    match tokio::task::spawn_blocking(work).await.map_err(|_panicked| Error::Preparation)? {
        Ok(done) => Ok(done),
        Err(omlx_text::Error::TooManyTokens { least, .. }) => Err(Error::FarTooLong { param, least, context }),
        Err(source) => Err(Error::Text { param, source }),
    }
}
