//! The two ends of one answer: the engine's [`Reply`] and the client's [`Ticket`].
//!
//! The channel between them has no bound of its own, because a step must never wait for a slow reader: the request's
//! limit bounds it (one event per token and one ending). What must stay true: a ticket ends exactly once. `done` and
//! `fail` consume the reply, so nothing can follow them; a reply that is dropped instead is seen as a closed channel
//! and read as [`Fault::Stopped`].

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{Event, Fault, Finish, Logprobs, Usage};

/// Makes the two ends of one answer.
pub(crate) fn pair() -> (Reply, Ticket) {
    let (sender, receiver) = unbounded_channel();
    let cached = Arc::new(AtomicUsize::new(0));
    let ticket = Ticket { events: receiver, cached: Arc::clone(&cached), ended: false };
    (Reply { events: sender, cached }, ticket)
}

/// The engine's end of one answer. Dropping it without an ending fails the ticket with [`Fault::Stopped`].
#[derive(Debug)]
pub struct Reply {
    events: UnboundedSender<Event>,
    cached: Arc<AtomicUsize>,
}

impl Reply {
    /// Says how many prompt tokens were found in the cache, before the first token: a client that cancels never sees the
    /// ending's usage, but has to account for its request all the same.
    pub fn admitted(&self, cached: usize) {
        self.cached.store(cached, Ordering::Relaxed);
    }

    /// Sends one token. Does nothing when nobody listens any more.
    pub fn token(&self, id: u32, logprobs: Option<Logprobs>) {
        self.send(Event::Token { id, logprobs });
    }

    /// Ends the answer.
    pub fn done(self, why: Finish, usage: Usage) {
        self.send(Event::Done { why, usage });
    }

    /// Ends the ticket without an answer.
    pub fn fail(self, fault: Fault) {
        self.send(Event::Failed(fault));
    }

    /// Whether the ticket was dropped: the request is cancelled and its row may go.
    pub fn is_gone(&self) -> bool {
        self.events.is_closed()
    }

    fn send(&self, event: Event) {
        // An error means that the ticket is gone, which the engine learns from `is_gone` at its next step.
        let _gone = self.events.send(event);
    }
}

/// The client's end of one answer: a stream of events. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "dropping a ticket cancels its request"]
pub struct Ticket {
    events: UnboundedReceiver<Event>,
    cached: Arc<AtomicUsize>,
    ended: bool,
}

impl Ticket {
    /// Prompt tokens found in the cache, as far as the engine has said so.
    pub fn cached(&self) -> usize {
        // Relaxed: the event that made the reader look came through a channel, which orders the two.
        self.cached.load(Ordering::Relaxed)
    }
}

impl Stream for Ticket {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let event = ready!(self.events.poll_recv(cx)).unwrap_or(Event::Failed(Fault::Stopped));
        self.ended = !matches!(event, Event::Token { .. });
        Poll::Ready(Some(event))
    }
}

impl FusedStream for Ticket {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}
