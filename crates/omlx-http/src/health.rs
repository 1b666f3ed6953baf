//! `GET /health`: whether the loaded engines live, and how busy they are. Open to all, so a supervisor needs no key.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

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
    prompt_tokens: u64,
    generated_tokens: u64,
    steps: u64,
    failed_steps: u64,
}

/// 200 when every loaded engine is alive (also when none is loaded), else 503.
pub(crate) async fn health(State(app): State<App>) -> Response {
    let models: Vec<Model> = app
        .catalog
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
            }
        })
        .collect();
    let healthy = models.iter().all(|model| model.alive);
    let (status, word) =
        if healthy { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "engine stopped") };
    (status, Json(Report { status: word, models })).into_response()
}
