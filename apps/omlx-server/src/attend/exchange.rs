//! A request and its answer: owed from the last byte of the one to the last byte of the other.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep, timeout};

use super::account::{Account, Debt};

/// How much of a request that is refused is still read, so that its sender gets to see why.
const DISCARD_BYTES: usize = 64 << 20;
/// For how long.
const DISCARD_TIME: Duration = Duration::from_secs(5);
/// A rest that is read before its sender could do anything about it.
const SMALL_BYTES: u64 = 64 << 10;

/// What the two bodies of an exchange share.
#[derive(Clone)]
pub(super) struct Exchange {
    account: Arc<Account>,
    debt: Arc<OnceLock<Debt>>,
    /// Much of the request was left unread.
    unread: Arc<AtomicBool>,
}

impl Exchange {
    pub(super) fn new(account: &Arc<Account>) -> Self {
        Self { account: Arc::clone(account), debt: Arc::default(), unread: Arc::default() }
    }

    /// The request's body, which must not pause for longer than `idle`.
    pub(super) fn receiving(&self, body: Incoming, idle: Duration) -> Receiving {
        if body.is_end_stream() {
            self.received();
        }
        Receiving { body: Some(body), idle, pause: None, exchange: self.clone() }
    }

    /// The answer's body.
    pub(super) fn answering(self, body: axum::body::Body) -> Answering {
        Answering { body, exchange: self }
    }

    /// Whether the answer was given without reading the whole request, and a good part of it is still to come.
    pub(super) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    fn received(&self) {
        self.debt.get_or_init(|| Debt::new(&self.account));
    }

    fn answered(&self) {
        if let Some(debt) = self.debt.get() {
            debt.pay();
        }
    }
}

/// A request's body on its way in.
pub(super) struct Receiving {
    /// There until dropped.
    body: Option<Incoming>,
    idle: Duration,
    pause: Option<Pin<Box<Sleep>>>,
    exchange: Exchange,
}

impl Body for Receiving {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
            ready!(this.pause.get_or_insert_with(|| Box::pin(sleep(this.idle))).as_mut().poll(cx));
            // Dropped here: whoever pauses so long is not waited for once more.
            this.body = None;
            return Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())));
        };
        this.pause = None;
        if frame.is_none() || body.is_end_stream() {
            this.exchange.received();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for Receiving {
    /// Whoever drops it wants no more of it, so the answer does not wait for what is missing.
    fn drop(&mut self) {
        self.exchange.received();
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        if body.size_hint().upper().is_none_or(|bytes| bytes > SMALL_BYTES) {
            self.exchange.unread.store(true, Ordering::Relaxed);
        }
        // Many clients look at the answer only when all is sent, and a connection that is closed with unread bytes in it
        // takes the answer with it. Outside of a runtime there is no connection either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(timeout(DISCARD_TIME, discard(body)));
        }
    }
}

/// Reads what nobody wants, to its end or to the limit.
async fn discard(mut body: Incoming) {
    let mut left = DISCARD_BYTES;
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// An answer's body on its way out.
pub(super) struct Answering {
    body: axum::body::Body,
    exchange: Exchange,
}

impl Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) {
            self.exchange.answered();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    /// A body that says by itself that it has ended is not asked once more.
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.exchange.answered();
        }
    }
}
