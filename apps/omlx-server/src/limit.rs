//! A listener with a limit on open connections: further ones wait in the system's queue until one is closed.
//!
//! At the limit it says so, and connections that are owed nothing make room: half requests must not deafen the server.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Below the usual limit of 1024 open files, with room for models and logs.
const CONNECTIONS: usize = 900;

/// A listener that accepts no more than [`CONNECTIONS`] at a time.
pub(crate) struct Limited {
    listener: TcpListener,
    room: Arc<Semaphore>,
    crowded: watch::Sender<bool>,
}

impl Limited {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(CONNECTIONS)), crowded: watch::Sender::new(false) }
    }

    /// Turns true while no further connection can be accepted.
    pub(crate) fn crowded(&self) -> watch::Receiver<bool> {
        self.crowded.subscribe()
    }

    /// The next connection, and the permit to be given back when it ends. May be dropped while it waits.
    pub(crate) async fn accept(&mut self) -> (TcpStream, OwnedSemaphorePermit) {
        let full = self.room.available_permits() == 0;
        self.crowded.send_if_modified(|crowded| {
            let changed = *crowded != full;
            *crowded = full;
            changed
        });
        let permit = Arc::clone(&self.room).acquire_owned().await.expect("the semaphore is never closed");
        // This one waits out what is wrong for a moment only, such as too many open files.
        let (stream, _) = axum::serve::Listener::accept(&mut self.listener).await;
        // A token is a small packet that must not wait for the next one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("no TCP_NODELAY: {error}");
        }
        (stream, permit)
    }
}
