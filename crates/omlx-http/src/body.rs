//! A request's body as JSON, or the right refusal: wrong content type, too large, not JSON, not an object.
//!
//! The content type is required and not guessed: a page of another origin may post forms and plain text without asking,
//! but `application/json` makes its browser ask first, and this server gives such questions no answer.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::router::App;
use crate::words;

/// A JSON object and the bytes it came in.
pub(crate) struct Body(Value, usize);

impl FromRequest<App> for Body {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        if !is_json(request.headers()) {
            return Err(Error::ContentType);
        }
        if let Some(coding) = coded(request.headers()) {
            return Err(Error::ContentEncoding { coding });
        }
        // A body that says it is too large is not waited for.
        let said = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if said.is_some_and(|said: u64| said > app.config.body_bytes as u64) {
            return Err(Error::BodyTooLarge { limit: app.config.body_bytes });
        }
        let bytes = Bytes::from_request(request, app).await.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Error::BodyTooLarge { limit: app.config.body_bytes },
            _ => Error::BodyLost,
        })?;
        let value: Value = serde_json::from_slice(&bytes).map_err(Error::NotJson)?;
        if value.is_object() { Ok(Body(value, bytes.len())) } else { Err(Error::NotAnObject) }
    }
}

impl Body {
    /// The body's size on the wire.
    pub(crate) fn bytes(&self) -> usize {
        self.1
    }

    /// The whole of it, for fields that no type names.
    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    /// The fields that `T` knows; others are left alone. An error names the field.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_path_to_error::deserialize(&self.0).map_err(|fault| words::of(&self.0, fault))
    }
}

/// How the body is compressed, if it is.
fn coded(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(header::CONTENT_ENCODING)?;
    let coding = String::from_utf8_lossy(given.as_bytes()).trim().to_ascii_lowercase();
    (!coding.is_empty() && coding != "identity").then_some(coding)
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(given)) = headers.get(header::CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}
