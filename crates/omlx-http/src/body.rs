//! A request's body as JSON, or the right refusal: wrong content type, too large, not JSON, not an object.
//!
//! The content type is required and not guessed: a page of another origin may post forms and plain text without asking,
//! but `application/json` makes its browser ask first, and this server gives such questions no answer.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::prepare::PREPARING_KIB;
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
        let len = bytes.len();
        let value = if len <= SMALL_BYTES { parse(&bytes) } else { parse_aside(app, bytes).await }?;
        if value.is_object() { Ok(Body(value, len)) } else { Err(Error::NotAnObject) }
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

/// A body up to this size is read where it comes in: handing it over would take longer.
const SMALL_BYTES: usize = 64 << 10;

/// Most objects, lists and fields of objects together. In memory each takes hundreds of bytes, so a body of 16 MB that is full
/// of them would take a gigabyte.
const MOST_PARTS: usize = 1 << 17;

/// Most values in lists: token ids, and each takes 32 bytes.
const MOST_VALUES: usize = 1 << 21;

/// Reads a large body away from the threads that serve connections; waits while many are being read.
async fn parse_aside(app: &App, bytes: Bytes) -> Result<Value, Error> {
    let kib = u32::try_from(bytes.len() >> 10).unwrap_or(u32::MAX).clamp(1, PREPARING_KIB);
    let room = Arc::clone(&app.preparing).acquire_many_owned(kib).await.expect("the semaphore is never closed");
    let work = move || {
        let _room = room;
        parse(&bytes)
    };
    tokio::task::spawn_blocking(work).await.map_err(|_panicked| Error::Preparation)?
}

fn parse(bytes: &[u8]) -> Result<Value, Error> {
    let (parts, values) = count(bytes);
    if parts > MOST_PARTS {
        return Err(Error::BodyTooManyParts { limit: MOST_PARTS, what: "objects, lists and fields" });
    }
    if values > MOST_VALUES {
        return Err(Error::BodyTooManyParts { limit: MOST_VALUES, what: "values" });
    }
    serde_json::from_slice(bytes).map_err(Error::NotJson)
}

/// How many parts and how many values a text has, if it is JSON.
fn count(bytes: &[u8]) -> (usize, usize) {
    let (mut parts, mut values, mut inside, mut escaped) = (0, 0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'{' | b'[' | b':' if !inside => parts += 1,
            b',' if !inside => values += 1,
            _ => {}
        }
    }
    (parts, values)
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
