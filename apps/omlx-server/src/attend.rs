//! One connection from its first byte to its last: what it may cost while it asks for nothing, and when it is given up.
//!
//! Hyper speaks the protocol, and stops reading as long as it holds bytes that it cannot use yet (a line break behind a
//! body, a second request). So the socket itself is watched here: a client that goes away while it is being answered
//! takes its request with it, whatever it sent before. A head or a body that does not arrive ends the connection.
//!
//! A client that only ends its sending side looks the same as one that goes away, until something is sent to it: the one
//! takes it, the other's system refuses. So an answer that begins soon is sent, and one that is taken goes on.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::watch;
use tower::ServiceExt as _;

use account::{Account, Owed};
use exchange::Exchange;
use wire::Wire;

pub(crate) mod account;
mod exchange;
mod wire;

/// How often a socket with unread bytes is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For a whole head, or without asking anything between two requests.
    pub(crate) head: Duration,
    /// Between two pieces of a body.
    pub(crate) body: Duration,
    /// For anything to be sent to it once it has ended its sending side; after that it counts as gone.
    pub(crate) half: Duration,
    /// To take any of what is sent to it; after that it counts as gone.
    pub(crate) deaf: Duration,
    /// To complete its request when the server is about to end, or all connections are taken.
    pub(crate) short: Duration,
}

/// What all connections of a server share.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) app: axum::Router,
    pub(crate) patience: Patience,
    /// Answers that are being made or sent.
    pub(crate) owed: Arc<Owed>,
    /// True while no further connection can be accepted.
    pub(crate) crowded: watch::Receiver<bool>,
    /// Turns true when no more requests are to be taken.
    pub(crate) stop: watch::Receiver<bool>,
}

/// Answers the requests of one connection.
pub(crate) async fn attend(stream: TcpStream, house: House) {
    let House { app, patience, owed, crowded, mut stop } = house;
    let account = Arc::new(Account::new(owed));
    let (read, write) = stream.into_split();
    let read = Arc::new(read);
    let wire = TokioIo::new(Wire::new(Arc::clone(&read), write, Arc::clone(&account)));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (app, exchange) = (app.clone(), Exchange::new(&account));
        async move {
            let request = request.map(|body| axum::body::Body::new(exchange.receiving(body, patience.body)));
            let mut response = app.oneshot(request).await?;
            if exchange.is_unread() {
                // The rest is read and thrown away, but whoever sees this need not send it.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| exchange.answering(body)))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience.head).half_close(true);
    let mut connection = pin!(http.serve_connection(wire, service));
    let mut left = pin!(left(&read, &account, patience.half));
    let mut deaf = pin!(deaf(&account, patience.deaf));
    let mut closing = pin!(closing(stop.clone(), &account, patience.short));
    let mut yielding = pin!(yielding(crowded, &account, patience.short));
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            done = &mut connection => {
                if let Err(error) = done {
                    tracing::debug!("a connection ended: {error}");
                }
                return;
            }
            _ = stop.wait_for(|stop| *stop), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut left => return tracing::debug!("a client left before its answer"),
            () = &mut deaf => return tracing::debug!("a client did not take its answer"),
            () = &mut closing => return,
            () = &mut yielding => return tracing::debug!("a client that asked for nothing made room for others"),
        }
    }
}

/// Ends when the client has gone while an answer is being made for it.
async fn left(socket: &OwnedReadHalf, account: &Account, patience: Duration) {
    // Since when it sends no more, and how much it had been sent by then.
    let mut silent: Option<(Instant, u64)> = None;
    loop {
        let Ok(ready) = socket.ready(Interest::READABLE).await else { return };
        // A connection that owes nothing is hyper's to end: it reads.
        if ready.is_read_closed() && account.answering() {
            let (since, sent) = *silent.get_or_insert_with(|| (Instant::now(), account.sent()));
            let refused = !matches!(socket.as_ref().take_error(), Ok(None));
            if refused || (account.sent() == sent && since.elapsed() >= patience) {
                return;
            }
        }
        // Unread bytes and an end both keep the socket ready.
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends when the client has taken nothing of what is sent to it for as long as `patience`: its request would keep its place among
/// those that run, or its answer the memory, for ever. Measured from what it took last, so that a little of it buys no second
/// patience on top.
async fn deaf(account: &Account, patience: Duration) {
    loop {
        let since = account.deaf_since().await;
        if since.elapsed() >= patience {
            return;
        }
        tokio::time::sleep_until(since + patience).await;
    }
}

/// Ends when the server stops, the client has had its time, and it is owed nothing.
async fn closing(mut stop: watch::Receiver<bool>, account: &Account, patience: Duration) {
    // A sender that is gone also means: stop.
    let _ = stop.wait_for(|stop| *stop).await;
    tokio::time::sleep(patience).await;
    while account.owes() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends when no connection could be accepted for as long as `patience`, and the client of this one is owed nothing.
async fn yielding(mut crowded: watch::Receiver<bool>, account: &Account, patience: Duration) {
    while crowded.wait_for(|crowded| *crowded).await.is_ok() {
        tokio::time::sleep(patience).await;
        if *crowded.borrow() && !account.owes() {
            return;
        }
    }
    // Nobody is accepted any more.
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests;
