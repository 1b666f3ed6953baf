//! The socket: where to listen, who may be let in, and how to stop.
//!
//! A first signal stops taking connections and lets running answers finish; a second one, or the time limit, ends at once.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::attend::{House, Patience, attend};
use crate::config::Access;
use crate::limit::Limited;
use crate::shown::shown;

/// How long running answers may go on after the first signal.
const GRACE: Duration = Duration::from_secs(30);

/// How long the news of a cut answer may take to its client.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Heads and bodies come in one piece; between two requests a client may rest a while.
const PATIENCE: Patience = Patience {
    head: Duration::from_secs(30),
    body: Duration::from_secs(30),
    half: Duration::from_millis(500),
    deaf: Duration::from_secs(120),
    short: Duration::from_secs(1),
};

/// How the server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All answers were complete, or none had begun.
    Clean,
    /// The time was up, or the user would not wait.
    Cut,
}

/// What was served by the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) ending: Ending,
    /// Complete requests, of whatever route.
    pub(crate) requests: u64,
    /// Those whose answers went out to the last byte; of the others the client left or was left.
    pub(crate) answered: u64,
}

/// Opens the port, unless that would let other machines in without a key.
pub(crate) async fn bind(host: &str, port: u16, access: &Access) -> Result<(TcpListener, SocketAddr)> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port))
        .await
        .with_context(|| {
            format!("--host {} is no address of this machine; 127.0.0.1 and 0.0.0.0 always work", shown(host))
        })?
        .collect();
    if *access == Access::ThisMachine && !addresses.iter().all(|a| a.ip().is_loopback()) {
        let host = shown(host);
        bail!(
            "--host {host} lets other machines in, and no key is set; set OMLX_API_KEY (or --api-key), \
             listen on 127.0.0.1, or say --no-auth if everyone on the network may use the models"
        );
    }
    let listener = TcpListener::bind(addresses.as_slice()).await.map_err(|error| {
        let place = format!("cannot listen on {}, port {port}", shown(host));
        // What is said here in words is not said again as the system says it.
        match error.kind() {
            ErrorKind::AddrInUse => anyhow!(
                "{place}: another program uses it; stop that one, or choose another --port (0 takes a free one)"
            ),
            ErrorKind::PermissionDenied => {
                anyhow!("{place}: ports below 1024 need special rights; choose a higher --port")
            }
            ErrorKind::AddrNotAvailable => anyhow!("{place}: this machine has no such address; choose another --host"),
            _ => anyhow!("{place}: {error}; choose another --host or --port"),
        }
    })?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Answers requests until told to stop. `close` keeps answers from beginning that have not begun, `cut` ends those that
/// would not end by themselves.
pub(crate) async fn serve(
    (listener, connections): (TcpListener, usize),
    app: axum::Router,
    mut signals: mpsc::Receiver<()>,
    close: impl FnOnce(),
    cut: impl FnOnce(),
) -> Served {
    let (stop, stopped) = watch::channel(false);
    let mut listener = Limited::new(listener, connections);
    let house = House { app, patience: PATIENCE, owed: Arc::default(), crowded: listener.crowded(), stop: stopped };
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            _ = signals.recv() => break,
            // Taken out as they end; a panic among them was told when it happened.
            Some(_) = clients.join_next() => {}
            (stream, permit) = listener.accept() => {
                let house = house.clone();
                clients.spawn(async move {
                    attend(stream, house).await;
                    drop(permit);
                });
            }
        }
    }
    // Further clients are told by the system that nobody listens.
    drop(listener);
    tracing::info!(
        "stopping: running answers may finish for {} seconds; a second signal ends at once",
        GRACE.as_secs()
    );
    stop.send_replace(true);
    close();
    let served = |ending| Served { ending, requests: house.owed.asked(), answered: house.owed.answered() };
    let why = tokio::select! {
        () = all(&mut clients) => return served(Ending::Clean),
        () = tokio::time::sleep(GRACE) => "the time is up",
        Some(()) = signals.recv() => "second signal",
    };
    let ending = if house.owed.any() { Ending::Cut } else { Ending::Clean };
    if ending == Ending::Cut {
        tracing::warn!("{why}: answers that still run are cut off");
    }
    cut();
    // Long enough for the clients to be told, short enough for "at once".
    let _ = tokio::time::timeout(LAST_WORDS, all(&mut clients)).await;
    served(ending)
}

/// Waits for all connections to end.
async fn all(clients: &mut JoinSet<()>) {
    while clients.join_next().await.is_some() {}
}

/// A message for each SIGINT and SIGTERM, and for each SIGHUP (the terminal is closed) unless that was to be ignored (`nohup`).
pub(crate) fn signals() -> Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(2);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = (!ignores_hangup()).then(SignalKind::hangup);
        for kind in [SignalKind::interrupt(), SignalKind::terminate()].into_iter().chain(hangup) {
            let (mut stream, sender) = (signal(kind).context("cannot watch for signals")?, sender.clone());
            tokio::spawn(async move { while stream.recv().await.is_some() && sender.send(()).await.is_ok() {} });
        }
    }
    #[cfg(not(unix))]
    tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && sender.send(()).await.is_ok() {} });
    Ok(receiver)
}

/// Whether this process was started to outlive its terminal. Where the system does not say, SIGHUP is left as it is.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    // SIGHUP is the first signal, and so the lowest bit.
    ignored.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_none_or(|mask| mask & 1 == 1)
}
