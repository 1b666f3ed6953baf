//! Server-sent events: JSON lines out, comments while nothing is said.
//!
//! A heartbeat is a comment, so it has no identity that a client could mistake for an answer's; where an API has an event for it, that.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::StreamExt;
use serde::Serialize;

/// What an answer's shapes are on the wire, streamed or whole.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the wire's shapes have string keys and nothing that can fail")
}

/// The first item, which decides the status; waited for until the first heartbeat is due.
pub(crate) async fn first<T>(items: &mut (impl Stream<Item = T> + Unpin), keep_alive: Option<Duration>) -> Option<T> {
    match keep_alive {
        Some(interval) => tokio::time::timeout(interval, items.next()).await.unwrap_or_default(),
        None => items.next().await,
    }
}

/// A response that sends each string as one event. Dropping its body drops `lines`.
pub(crate) fn respond(lines: impl Stream<Item = String> + Send + 'static, keep_alive: Option<Duration>) -> Response {
    let beat = keep_alive.map(|interval| KeepAlive::new().interval(interval).text("keep-alive"));
    send(lines.map(|line| Event::default().data(line)), beat)
}

/// The same for events with names, and with an event of this name and content as heartbeat.
pub(crate) fn events(
    events: impl Stream<Item = (&'static str, String)> + Send + 'static,
    keep_alive: Option<Duration>,
    name: &'static str,
    content: &'static str,
) -> Response {
    let beat = Event::default().event(name).data(content);
    let beat = keep_alive.map(|interval| KeepAlive::new().interval(interval).event(beat));
    send(events.map(|(name, data)| Event::default().event(name).data(data)), beat)
}

fn send(events: impl Stream<Item = Event> + Send + 'static, beat: Option<KeepAlive>) -> Response {
    let sse = Sse::new(events.map(Ok::<_, Infallible>));
    let mut response = match beat {
        Some(beat) => sse.keep_alive(beat).into_response(),
        None => sse.into_response(),
    };
    // nginx and its kin collect a response before they pass it on unless told not to.
    response.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
