//! A listener with a limit on open connections: further ones wait in the system's queue until one is closed.
//!
//! At the limit it says so, and connections that are owed nothing make room: half requests must not deafen the server.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Most connections at a time.
const CONNECTIONS: usize = 900;
/// Open files that are left to models, caches and logs.
const OTHER_FILES: u64 = 124;
/// Fewest connections worth a server: what supervises it has to come in beside those who wait for long answers.
const LEAST_CONNECTIONS: u64 = 16;
/// Open files to ask the system for. Its soft limit is 256 on a Mac and 1024 on most others, and the hard one far above.
const WISHED_FILES: u64 = 8192;

/// How many connections the system's limit of open files leaves room for, once it is raised as far as is allowed and useful.
#[cfg(unix)]
pub(crate) fn connections() -> anyhow::Result<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wished = WISHED_FILES.min(maximum.unwrap_or(u64::MAX));
    let files = match current {
        Some(files) if files < wished => match setrlimit(Resource::Nofile, Rlimit { current: Some(wished), maximum }) {
            Ok(()) => wished,
            Err(_) => files,
        },
        files => files.unwrap_or(u64::MAX),
    };
    beside(files)
}

#[cfg(not(unix))]
pub(crate) fn connections() -> anyhow::Result<usize> {
    Ok(CONNECTIONS)
}

/// Connections beside everything else, of so many open files.
fn beside(files: u64) -> anyhow::Result<usize> {
    let least = OTHER_FILES + LEAST_CONNECTIONS;
    if files < least {
        anyhow::bail!(
            "this process may open {files} files, and a server needs at least {least}; raise the limit (ulimit -n 1024)"
        );
    }
    let room = usize::try_from(files - OTHER_FILES).unwrap_or(usize::MAX);
    Ok(room.min(CONNECTIONS))
}

/// A listener that accepts only so many connections at a time.
pub(crate) struct Limited {
    listener: TcpListener,
    room: Arc<Semaphore>,
    crowded: watch::Sender<bool>,
}

impl Limited {
    pub(crate) fn new(listener: TcpListener, connections: usize) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(connections)), crowded: watch::Sender::new(false) }
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

#[cfg(test)]
mod tests {
    //! Of few open files some are kept for everything else.

    use super::{CONNECTIONS, beside};

    #[test]
    fn connections_leave_files_for_the_rest() {
        assert_eq!(beside(u64::MAX).unwrap(), CONNECTIONS);
        assert_eq!(beside(1024).unwrap(), 900);
        assert_eq!(beside(256).unwrap(), 132);
        // The fewest that do are those that the refusal names. Seen to fail: 224 named, 125 enough.
        let said = beside(0).unwrap_err().to_string();
        let least = said.split("at least ").nth(1).and_then(|rest| rest.split(';').next()?.parse().ok()).unwrap();
        assert!(beside(least).is_ok() && said.contains("ulimit -n"), "{said}");
        assert_eq!(beside(least - 1).unwrap_err().to_string(), said.replace("open 0", &format!("open {}", least - 1)));
    }
}
