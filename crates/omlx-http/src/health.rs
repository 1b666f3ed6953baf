//! `GET /health`: whether the loaded engines live, and how busy they are. Open to all, so a supervisor needs no key.
//! `GET /api/status`: the same and what else there is, for the owner.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::memory::Memory;
use crate::prefixes::Prefixes;
use crate::router::App;

#[derive(Serialize)]
struct Report {
    status: &'static str,
    models: Vec<Model>,
}

#[derive(Serialize)]
struct Model {
    id: String,
    alive: bool,
    running: usize,
    waiting: usize,
    blocks: usize,
    blocks_free: usize,
    /// Those that were computed; what was found in the cache is not among them.
    prompt_tokens: u64,
    generated_tokens: u64,
    steps: u64,
    failed_steps: u64,
    /// Times that a request gave up its cache blocks and had to wait until it could go on.
    parked: u64,
    /// Of the steps that succeeded, and of those the part between two passes of the model.
    step_seconds: f64,
    host_seconds: f64,
}

/// What an owner's own page shows of the server, behind the guard.
#[derive(Serialize)]
pub(crate) struct Status {
    version: &'static str,
    uptime_seconds: u64,
    /// Loaded ones.
    models: Vec<Model>,
    /// All that can be asked for, loaded or not.
    known: Vec<Known>,
    /// What the memory guard sees; null where it is off.
    memory: Option<Memory>,
    /// What is kept of prompts beside the engines; null where nothing is.
    prefixes: Option<Prefixes>,
}

#[derive(Serialize)]
struct Known {
    id: String,
    /// Why it cannot be served.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

/// `GET /api/status`.
pub(crate) async fn status(State(app): State<App>) -> Json<Status> {
    let known = app.catalog.cards().into_iter().map(|card| Known { id: card.id, trouble: card.trouble }).collect();
    let (version, uptime_seconds) = (env!("CARGO_PKG_VERSION"), app.begin.elapsed().as_secs());
    Json(Status {
        version,
        uptime_seconds,
        models: loaded(&app),
        known,
        memory: app.catalog.memory(),
        prefixes: app.catalog.prefixes(),
    })
}

/// 200 when every loaded engine is alive (also when none is loaded), else 503.
pub(crate) async fn health(State(app): State<App>) -> Response {
    let models = loaded(&app);
    let healthy = models.iter().all(|model| model.alive);
    let (status, word) =
        if healthy { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "engine stopped") };
    (status, Json(Report { status: word, models })).into_response()
}

fn loaded(app: &App) -> Vec<Model> {
    app.catalog
        .engines()
        .into_iter()
        .map(|(id, engine)| {
            let now = engine.snapshot();
            Model {
                id,
                alive: engine.is_alive(),
                running: now.running,
                waiting: now.waiting,
                blocks: now.blocks,
                blocks_free: now.blocks_free,
                prompt_tokens: now.prompt_tokens,
                generated_tokens: now.generated_tokens,
                steps: now.steps,
                failed_steps: now.failed_steps,
                parked: now.parked,
                step_seconds: now.step_micros as f64 / 1e6,
                host_seconds: now.host_micros as f64 / 1e6,
            }
        })
        .collect()
}
