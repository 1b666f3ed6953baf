//! The routes. `/health` and `/metrics` stand outside the guard; everything else, unknown paths included, stands behind it.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tokio::sync::Semaphore;

use crate::auth::guard;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::error::Error;
use crate::health::{health, status};
use crate::metrics::{Metrics, metrics};
use crate::openai::{PREPARING_KIB, chat, completions, models};
use crate::trace::trace;

/// What every route sees.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Metrics,
    /// Room for texts that are being prepared.
    pub(crate) preparing: Arc<Semaphore>,
    /// When the router was made.
    pub(crate) begin: Instant,
}

/// All routes of the API over the models of `catalog`.
pub fn router(catalog: Arc<dyn Catalog>, config: Config) -> Router {
    // A heartbeat every 0 seconds would be a flood.
    let config = Config { keep_alive: config.keep_alive.filter(|interval| !interval.is_zero()), ..config };
    let limit = DefaultBodyLimit::max(config.body_bytes);
    let preparing = Arc::new(Semaphore::new(PREPARING_KIB as usize));
    let app = App { catalog, config: Arc::new(config), metrics: Metrics::new(), preparing, begin: Instant::now() };
    let guarded = Router::new()
        .route("/v1/models", get(models::list))
        // A wildcard, so that `owner/name` works with its slash written plainly and encoded.
        .route("/v1/models/{*id}", get(models::one))
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/completions", post(completions::create))
        .route("/api/status", get(status))
        .method_not_allowed_fallback(async || Error::Method)
        .fallback(async || Error::Route)
        .layer(limit)
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app.clone());
    Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .method_not_allowed_fallback(async || Error::Method)
        .fallback_service(guarded)
        .layer(from_fn(trace))
        .with_state(app)
}
