//! Whose words a client speaks: every error is told in them, whichever part of the server it comes from.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::error::Error;
use crate::sse::json;

/// The two families of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
}

impl Dialect {
    /// Anthropic's clients name its version; its routes are nobody else's.
    pub(crate) fn of(path: &str, headers: &HeaderMap) -> Self {
        let own = path == "/v1/messages" || path.starts_with("/v1/messages/");
        if own || headers.contains_key("anthropic-version") { Dialect::Anthropic } else { Dialect::OpenAi }
    }
}

impl<S: Sync> FromRequestParts<S> for Dialect {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Dialect::of(parts.uri.path(), &parts.headers))
    }
}

/// Says an error in the client's dialect.
pub(crate) async fn speak(request: Request, next: Next) -> Response {
    let dialect = Dialect::of(request.uri().path(), request.headers());
    let mut response = next.run(request).await;
    if dialect == Dialect::OpenAi {
        return response;
    }
    let Some(error) = response.extensions().get::<Arc<Error>>().cloned() else { return response };
    let body = json(&error.anthropic(None));
    // The length is that of the body that was.
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response.map(|_| Body::from(body))
}

/// The id of a request under the name that this dialect knows.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Sets it.
pub(crate) fn name(response: &mut Response, id: &HeaderValue) {
    response.headers_mut().insert(REQUEST_ID, id.clone());
}
