//! The routes. `/health` and `/metrics` stand outside the guard; everything else, unknown paths included, stands behind it.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tokio::sync::Semaphore;

use crate::anthropic;
use crate::auth::guard;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::dialect::speak;
use crate::error::Error;
use crate::health::{health, status};
use crate::limits;
use crate::metrics::{Metrics, metrics};
use crate::openai::{chat, completions, models, probe};
use crate::prepare::PREPARING_KIB;
use crate::trace::trace;

/// The routes as a client that has lost its way is told of them; a last `{id}` stands for anything.
pub(crate) const ROUTES: [(&str, &str); 11] = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{id}"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/api/status"),
    ("POST", "/api/cache/probe"),
    ("GET or POST", "/api/memory-guard"),
];

/// All routes with their methods.
pub(crate) fn all_routes() -> String {
    ROUTES.map(|(method, path)| format!("{method} {path}")).join(", ")
}

/// The method that a path takes.
pub(crate) fn methods_of(path: &str) -> &'static str {
    leading(path).map_or("another one", |(method, _)| method)
}

/// The route that a path leads to, as [`ROUTES`] writes it: one of few, whatever clients ask for.
pub(crate) fn route_of(path: &str) -> &'static str {
    leading(path).map_or("none", |(_, route)| route)
}

/// The route that a path leads to, with its method.
fn leading(path: &str) -> Option<(&'static str, &'static str)> {
    let is = |route: &str| match route.strip_suffix("{id}") {
        Some(stem) => path.len() > stem.len() && path.starts_with(stem),
        None => route == path,
    };
    ROUTES.into_iter().find(|(_, route)| is(route))
}

async fn no_route(method: Method, uri: Uri) -> Error {
    Error::Route { method, path: uri.path().to_owned() }
}

async fn wrong_method(method: Method, uri: Uri) -> Error {
    Error::Method { method, path: uri.path().to_owned() }
}

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
        .route("/v1/messages", post(anthropic::create))
        .route("/v1/messages/count_tokens", post(anthropic::count))
        .route("/api/status", get(status))
        .route("/api/cache/probe", post(probe::probe))
        .route("/api/memory-guard", get(limits::show).post(limits::set))
        .method_not_allowed_fallback(wrong_method)
        .fallback(no_route)
        .layer(limit)
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app.clone());
    Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .method_not_allowed_fallback(wrong_method)
        .fallback_service(guarded)
        .layer(from_fn(speak))
        .layer(from_fn_with_state(app.clone(), trace))
        .with_state(app)
}
