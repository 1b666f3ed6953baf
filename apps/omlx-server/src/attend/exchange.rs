//! A request and its answer: owed from the last byte of the one to the last byte of the other.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use super::account::{Account, Debt};

/// What the two bodies of an exchange share.
#[derive(Clone)]
pub(super) struct Exchange {
    account: Arc<Account>,
    debt: Arc<OnceLock<Debt>>,
}

impl Exchange {
    pub(super) fn new(account: &Arc<Account>) -> Self {
        Self { account: Arc::clone(account), debt: Arc::default() }
    }

    /// The request's body, which must not pause for longer than `idle`.
    pub(super) fn receiving(&self, body: Incoming, idle: Duration) -> Receiving {
        if body.is_end_stream() {
            self.received();
        }
        Receiving { body, idle, pause: None, exchange: self.clone() }
    }

    /// The answer's body.
    pub(super) fn answering(self, body: axum::body::Body) -> Answering {
        Answering { body, _exchange: self }
    }

    fn received(&self) {
        self.debt.get_or_init(|| Debt::new(&self.account));
    }
}

/// A request's body on its way in.
pub(super) struct Receiving {
    body: Incoming,
    idle: Duration,
    pause: Option<Pin<Box<Sleep>>>,
    exchange: Exchange,
}

impl Body for Receiving {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            ready!(this.pause.get_or_insert_with(|| Box::pin(sleep(this.idle))).as_mut().poll(cx));
            return Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())));
        };
        this.pause = None;
        if frame.is_none() || this.body.is_end_stream() {
            this.exchange.received();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Receiving {
    /// Whoever drops it wants no more of it, so what is missing is not waited for.
    fn drop(&mut self) {
        self.exchange.received();
    }
}

/// An answer's body on its way out.
pub(super) struct Answering {
    body: axum::body::Body,
    _exchange: Exchange,
}

impl Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
