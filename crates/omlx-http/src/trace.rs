//! A name for every request: the client's `x-request-id` or a new one, in the log's span and in the answer's header.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

use crate::entropy::random;

const NAME: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is taken from a client.
const LONGEST: usize = 128;

/// Runs a request inside a span that carries its id, method and path; no header and no body is ever in it.
pub(crate) async fn trace(request: Request, next: Next) -> Response {
    let id = request.headers().get(NAME).and_then(|sent| sent.to_str().ok()).filter(|sent| fits(sent));
    let id = id.map_or_else(|| format!("{:016x}", random()), str::to_owned);
    let span = tracing::info_span!("request", id, method = %request.method(), path = request.uri().path());
    let value = HeaderValue::from_str(&id).ok();
    let begin = std::time::Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    span.in_scope(|| {
        tracing::debug!(status = response.status().as_u16(), ms = begin.elapsed().as_millis(), "answered")
    });
    if let Some(value) = value {
        response.headers_mut().insert(NAME, value);
    }
    response
}

/// Nothing that could break a line of a log.
fn fits(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST && id.bytes().all(|b| b.is_ascii_graphic())
}
