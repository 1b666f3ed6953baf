//! `GET /metrics`: what dashboards and gateways read, in Prometheus' text format. Open to all, as `/health` is.
//!
//! The names are vLLM's, since existing dashboards, gateways and autoscalers know them. Counts and times are taken where
//! answers pass on their way to the client; queue lengths and cache use are asked of the engines when somebody reads.

mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus::core::Collector;
use prometheus::{Encoder, Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};

pub(crate) use watch::{Ended, Watch};

use crate::account::Account;
use crate::memory;
use crate::prefixes;
use crate::router::{App, ROUTES};

/// Seconds to the first token.
const FIRST: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0];
/// Seconds between tokens.
const BETWEEN: [f64; 12] = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0];
/// Seconds of a whole answer.
const WHOLE: [f64; 12] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// Everything that is counted. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    all: Arc<All>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

struct All {
    registry: Registry,
    requests: IntCounterVec,
    prompt: IntCounterVec,
    generated: IntCounterVec,
    queried: IntCounterVec,
    hit: IntCounterVec,
    ended: IntCounterVec,
    failed: IntCounterVec,
    first: HistogramVec,
    between: HistogramVec,
    whole: HistogramVec,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            kept(&registry, IntCounterVec::new(Opts::new(name, help), labels).expect("names and labels are valid"))
        };
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            kept(&registry, HistogramVec::new(opts, &["model_name"]).expect("names and buckets are valid"))
        };
        let model = &["model_name"];
        let all = All {
            requests: counter(
                "omlx:http_requests_total",
                "Requests answered, by route and status; 499: the client left before there was one.",
                &["route", "status"],
            ),
            prompt: counter("vllm:prompt_tokens_total", "Prompt tokens of answers that have begun.", model),
            generated: counter("vllm:generation_tokens_total", "Tokens generated.", model),
            queried: counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the cache.", model),
            hit: counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the cache.", model),
            ended: counter(
                "vllm:request_success_total",
                "Answers that ended, by reason; abort: the client went away.",
                &["model_name", "finished_reason"],
            ),
            failed: counter(
                "omlx:request_failures_total",
                "Requests that got an error from the engine, by its code.",
                &["model_name", "code"],
            ),
            first: histogram("vllm:time_to_first_token_seconds", "From the request to its first token.", &FIRST),
            between: histogram(
                "vllm:inter_token_latency_seconds",
                "From one token of an answer to its next.",
                &BETWEEN,
            ),
            whole: histogram("vllm:e2e_request_latency_seconds", "From the request to its answer's end.", &WHOLE),
            registry,
        };
        for (method, route) in ROUTES {
            // there from the start, so that a rate over them is right from the first request on
            let usual: &[&str] = if method == "POST" { &["200", "400", "500", "503"] } else { &["200"] };
            usual.iter().for_each(|status| drop(all.requests.with_label_values(&[route, status])));
        }
        Self { all: Arc::new(all) }
    }

    /// Watches one answer of the model `id`, from now on; `first`: to its prompt.
    pub(crate) fn watch(&self, id: &str, prompt: usize, account: &Account, first: bool) -> Watch {
        Watch::new(self.clone(), id, prompt, account.clone(), first)
    }

    /// A request was answered.
    pub(crate) fn answered(&self, route: &str, status: u16) {
        self.all.requests.with_label_values(&[route, &status.to_string()]).inc();
    }

    fn begun(&self, id: &str, prompt: usize, cached: usize, after: Duration) {
        self.all.prompt.with_label_values(&[id]).inc_by(prompt as u64);
        self.all.queried.with_label_values(&[id]).inc_by(prompt as u64);
        self.all.hit.with_label_values(&[id]).inc_by(cached as u64);
        self.all.generated.with_label_values(&[id]).inc();
        self.all.first.with_label_values(&[id]).observe(after.as_secs_f64());
    }

    fn token(&self, id: &str, after: Duration) {
        self.all.generated.with_label_values(&[id]).inc();
        self.all.between.with_label_values(&[id]).observe(after.as_secs_f64());
    }

    /// Tokens that the answer took and that nobody is shown, as the end token.
    fn hidden(&self, id: &str, tokens: usize) {
        self.all.generated.with_label_values(&[id]).inc_by(tokens as u64);
    }

    fn ended(&self, id: &str, how: Ended, after: Duration) {
        match how {
            Ended::Well(reason) => {
                self.all.ended.with_label_values(&[id, reason]).inc();
                self.all.whole.with_label_values(&[id]).observe(after.as_secs_f64());
            }
            Ended::Abort => self.all.ended.with_label_values(&[id, "abort"]).inc(),
            Ended::Failed(code) => self.all.failed.with_label_values(&[id, code]).inc(),
        }
    }
}

pub(crate) fn kept<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> C {
    registry.register(Box::new(metric.clone())).expect("every name is registered once");
    metric
}

/// The process and its models.
fn process(app: &App, registry: &Registry) {
    let gauge = |name: &str, help: &str, value: f64| {
        kept(registry, Gauge::new(name, help).expect("the name is valid")).set(value);
    };
    let build = Opts::new("omlx:build_info", "1, with this server's version.");
    kept(registry, GaugeVec::new(build, &["version"]).expect("the name is valid"))
        .with_label_values(&[env!("CARGO_PKG_VERSION")])
        .set(1.0);
    let servable = app.catalog.cards().iter().filter(|card| card.trouble.is_none()).count();
    gauge("omlx:uptime_seconds", "Since this server began.", app.begin.elapsed().as_secs_f64());
    gauge("omlx:models_known", "Models that can be asked for, loaded or not.", servable as f64);
    gauge("omlx:models_loaded", "Models whose engines are loaded.", app.catalog.engines().len() as f64);
}

/// The state of the process and of its engines, as it is now.
fn gauges(app: &App) -> Registry {
    let registry = Registry::new();
    process(app, &registry);
    if let Some(memory) = app.catalog.memory() {
        memory::gauges(&memory, &registry);
    }
    if let Some(kept) = app.catalog.prefixes() {
        prefixes::gauges(&kept, &registry);
    }
    let gauge = |name: &str, help: &str| {
        kept(&registry, GaugeVec::new(Opts::new(name, help), &["model_name"]).expect("names and labels are valid"))
    };
    let running = gauge("vllm:num_requests_running", "Requests that take part in steps.");
    let waiting = gauge("vllm:num_requests_waiting", "Requests that wait.");
    let usage = gauge("vllm:kv_cache_usage_perc", "Share of the cache blocks in use, 0 to 1.");
    let old_usage = gauge("vllm:gpu_cache_usage_perc", "As vllm:kv_cache_usage_perc, by its older name.");
    let parked = Opts::new("vllm:num_preemptions_total", "Times that a request gave up its cache blocks for a while.");
    let parked = kept(&registry, IntCounterVec::new(parked, &["model_name"]).expect("names and labels are valid"));
    let alive = gauge("omlx:engine_alive", "1 while the engine takes requests.");
    let host = gauge("omlx:host_share", "Share of the steps' time between two passes of the model, 0 to 1.");
    for (id, engine) in app.catalog.engines() {
        let (now, labels) = (engine.snapshot(), &[id.as_str()]);
        let used = (now.blocks - now.blocks_free.min(now.blocks)) as f64 / now.blocks.max(1) as f64;
        running.with_label_values(labels).set(now.running as f64);
        waiting.with_label_values(labels).set(now.waiting as f64);
        usage.with_label_values(labels).set(used);
        old_usage.with_label_values(labels).set(used);
        parked.with_label_values(labels).inc_by(now.parked);
        host.with_label_values(labels).set(now.host_micros as f64 / now.step_micros.max(1) as f64);
        alive.with_label_values(labels).set(f64::from(u8::from(engine.is_alive())));
    }
    registry
}

pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let mut families = gauges(&app).gather();
    families.extend(app.metrics.all.registry.gather());
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    encoder.encode(&families, &mut text).expect("families with metrics are written to memory");
    let kind = encoder.format_type().to_owned();
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
