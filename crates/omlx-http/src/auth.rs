//! Who may come in: the key check, and without a key the check of the `Host` name.
//!
//! The key is compared in constant time and never written anywhere. Only headers count: a key in a URL would end up in
//! logs and histories. There is no CORS answer at all, so pages of other origins can neither preflight nor read.

use std::hint::black_box;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::config::Config;
use crate::error::Error;
use crate::router::App;

/// Lets a request through, or answers 401 or 403 in its place.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Result<Response, Error> {
    admit(&app.config, request.headers())?;
    Ok(next.run(request).await)
}

fn admit(config: &Config, headers: &HeaderMap) -> Result<(), Error> {
    if let Some(key) = &config.api_key {
        let sent = offered(headers);
        return if sent.into_iter().flatten().any(|sent| same(sent, key.as_bytes())) {
            Ok(())
        } else {
            Err(Error::Key)
        };
    }
    let Some(hosts) = &config.hosts else {
        return Ok(());
    };
    let name = headers.get(header::HOST).and_then(|host| host.to_str().ok()).map_or("", without_port);
    if hosts.iter().any(|host| host.eq_ignore_ascii_case(name)) { Ok(()) } else { Err(Error::Host) }
}

/// The keys a request shows: bearer token and `x-api-key`.
fn offered(headers: &HeaderMap) -> [Option<&[u8]>; 2] {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    [bearer, headers.get("x-api-key").map(|value| value.as_bytes())]
}

/// Compares without an early way out, so that the time taken says nothing about how much of a guess was right.
fn same(sent: &[u8], key: &[u8]) -> bool {
    let mut different = u8::from(sent.len() != key.len());
    for (at, byte) in sent.iter().enumerate() {
        // A key shorter than the guess is read round and round: the time depends on the guess alone.
        different |= black_box(byte ^ key.get(at % key.len().max(1)).copied().unwrap_or(0));
    }
    black_box(different) == 0 && !key.is_empty()
}

/// The name in a `Host` header: `[::1]:8000` is `[::1]`, `localhost:8000` is `localhost`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}
