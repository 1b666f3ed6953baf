//! `GET` and `POST /api/memory-guard`: how much memory this server may take, shown, and set while it runs.
//!
//! What may be written there is what the server's owner may write at its start: whoever owns the guard reads the words. It counts until
//! the server ends.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::error::Error;
use crate::memory::Memory;
use crate::router::App;

#[derive(Serialize)]
pub(crate) struct Shown {
    /// As in `/api/status`: null where nobody watches.
    memory: Option<Memory>,
}

#[derive(Deserialize)]
struct Wish {
    memory_guard: Option<String>,
}

/// `GET /api/memory-guard`.
pub(crate) async fn show(State(app): State<App>) -> Json<Shown> {
    Json(Shown { memory: app.catalog.memory() })
}

/// `POST /api/memory-guard`.
pub(crate) async fn set(State(app): State<App>, body: Body) -> Result<Json<Shown>, Error> {
    let wish = body.read::<Wish>()?.memory_guard;
    let words = wish.ok_or(Error::Missing("memory_guard".into()))?;
    let memory = app.catalog.set_memory(&words).map_err(Error::Guard)?;
    Ok(Json(Shown { memory: Some(memory) }))
}
