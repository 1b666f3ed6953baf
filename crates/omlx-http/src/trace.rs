//! A name for every request: the client's `x-request-id` or a new one, in the log's span and in the answer's header; and its
//! line in the log when its body has gone.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tracing::Instrument as _;

use crate::account::{Account, Line};
use crate::dialect::{self, Dialect};
use crate::entropy::random;
use crate::error::{Code, shortened};
use crate::router::{App, route_of};

const NAME: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is taken from a client.
const LONGEST: usize = 128;

/// Runs a request inside a span that carries its id, method and path; no header and no body is ever in it.
pub(crate) async fn trace(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = request.headers().get(NAME).and_then(|sent| sent.to_str().ok()).filter(|sent| fits(sent));
    let id = id.map_or_else(|| format!("{:016x}", random()), str::to_owned);
    let (path, account) = (request.uri().path(), Account::new());
    let span = tracing::info_span!("request", id, method = %request.method(), path = shortened(path));
    let mut line = Line {
        account: account.clone(),
        metrics: app.metrics,
        span: span.clone(),
        route: route_of(path),
        status: None,
        error: None,
        sent: false,
    };
    let dialect = Dialect::of(path, request.headers());
    // The head is all that is sent of such an answer.
    let head = request.method() == Method::HEAD;
    request.extensions_mut().insert(account);
    let mut response = next.run(request).instrument(span).await;
    line.status = Some(response.status().as_u16());
    line.sent = head;
    line.error = response.extensions().get::<Code>().map(|code| code.0);
    if let Ok(value) = HeaderValue::from_str(&id) {
        if dialect == Dialect::Anthropic {
            dialect::name(&mut response, &value);
        }
        response.headers_mut().insert(NAME, value);
    }
    response.map(|body| Body::new(Told { body, line: Some(line) }))
}

/// A body whose line is written when it has been sent, or when nobody wants it any more.
struct Told {
    body: Body,
    line: Option<Line>,
}

impl HttpBody for Told {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.sent();
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

impl Told {
    /// Writes the line: the last byte has gone.
    fn sent(&mut self) {
        if let Some(mut line) = self.line.take() {
            line.sent = true;
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // A body that says by itself that it has ended is not asked for more.
        if self.body.is_end_stream() {
            self.sent();
        }
    }
}

/// Nothing that could break a line of a log.
fn fits(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST && id.bytes().all(|b| b.is_ascii_graphic())
}
