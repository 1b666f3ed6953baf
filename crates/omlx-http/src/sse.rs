//! Server-sent events: JSON lines out, comments while nothing is said.
//!
//! A heartbeat is a comment and never an event, so it has no identity that a client could mistake for an answer's.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::StreamExt;

/// A response that sends each string as one event. Dropping its body drops `lines`.
pub(crate) fn respond(lines: impl Stream<Item = String> + Send + 'static, keep_alive: Option<Duration>) -> Response {
    let sse = Sse::new(lines.map(|line| Ok::<_, Infallible>(Event::default().data(line))));
    let mut response = match keep_alive {
        Some(interval) => sse.keep_alive(KeepAlive::new().interval(interval).text("keep-alive")).into_response(),
        None => sse.into_response(),
    };
    // nginx and its kin collect a response before they pass it on unless told not to.
    response.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
