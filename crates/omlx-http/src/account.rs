//! What one request came to: filled while it is answered, one line of the log and one count when its last byte has gone.
//!
//! The line is written exactly once, also where the client leaves. It holds counts, times and names; never a text, a key or a
//! header.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::body::Body;
use crate::error::shortened;
use crate::metrics::{Ended, Metrics};

/// The status in the log of a request whose client left before there was one, as nginx writes it.
const CLIENT_LEFT: u16 = 499;

/// What the answers of one request add up to. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Account(Arc<Mutex<Sums>>);

#[derive(Debug)]
struct Sums {
    begin: Instant,
    /// As it is asked for, until it is open; then by its full name.
    model: Option<String>,
    /// Whether a prompt of it got as far as the model.
    taken: bool,
    prompt: usize,
    cached: usize,
    tokens: usize,
    first: Option<Instant>,
    last: Option<Instant>,
    /// How its answers ended, each way once.
    ends: Vec<&'static str>,
    /// The code of the first answer that failed.
    failed: Option<&'static str>,
}

impl Account {
    pub(crate) fn new() -> Self {
        Account(Arc::new(Mutex::new(Sums {
            begin: Instant::now(),
            model: None,
            taken: false,
            prompt: 0,
            cached: 0,
            tokens: 0,
            first: None,
            last: None,
            ends: Vec::new(),
            failed: None,
        })))
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What came names this model, which there may not be, or by another full name.
    pub(crate) fn asks(&self, body: &Body) {
        self.sums().model = body.value().get("model").and_then(Value::as_str).map(shortened);
    }

    /// The full name of the model that it asked for.
    pub(crate) fn opened(&self, model: &str) {
        self.sums().model = Some(model.to_owned());
    }

    /// A prompt of `tokens` goes to the model; it counts once, however many answers it gets.
    pub(crate) fn prompt(&self, tokens: usize) {
        let mut sums = self.sums();
        sums.prompt += tokens;
        sums.taken = true;
    }

    /// So many of a prompt's tokens were found in the cache.
    pub(crate) fn cached(&self, tokens: usize) {
        self.sums().cached += tokens;
    }

    /// So many tokens have come.
    pub(crate) fn tokens(&self, count: usize, now: Instant) {
        let mut sums = self.sums();
        sums.tokens += count;
        sums.first.get_or_insert(now);
        sums.last = Some(now);
    }

    /// An answer ended in this way.
    pub(crate) fn end(&self, ended: Ended) {
        let mut sums = self.sums();
        let how = match ended {
            Ended::Well(reason) => reason,
            Ended::Abort => "abort",
            Ended::Failed(code) => {
                sums.failed.get_or_insert(code);
                code
            }
        };
        if !sums.ends.contains(&how) {
            sums.ends.push(how);
        }
    }
}

/// A line that is due. Dropping it writes it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) account: Account,
    pub(crate) metrics: Metrics,
    pub(crate) span: tracing::Span,
    pub(crate) route: &'static str,
    /// None until there is one.
    pub(crate) status: Option<u16>,
    /// The code of an error that came instead of an answer.
    pub(crate) error: Option<&'static str>,
    /// Whether the answer went out to its last byte.
    pub(crate) sent: bool,
}

impl Drop for Line {
    fn drop(&mut self) {
        let status = self.status.unwrap_or(CLIENT_LEFT);
        self.metrics.answered(self.route, status);
        let sums = self.account.sums();
        let millis = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
        let ms = millis(sums.begin.elapsed());
        let _in = self.span.enter();
        let model = sums.model.as_deref();
        // A stream has its status before it has its end, so a status of 200 alone does not say that all went well.
        let error = self.error.or(sums.failed);
        let end = match (self.sent, error) {
            (false, _) => Some("cancelled"),
            (true, Some(_)) => Some("failed"),
            (true, None) => None,
        };
        if !sums.taken {
            // what supervisors ask for every few seconds would bury the rest
            if status < 400 && matches!(self.route, "/health" | "/metrics") {
                tracing::debug!(status, ms, "answered");
            } else {
                tracing::info!(status, model, ms, end, error, "answered");
            }
            return;
        }
        let ttft_ms = sums.first.map(|first| millis(first - sums.begin));
        tracing::info!(
            status,
            model,
            prompt = sums.prompt,
            cached = sums.cached,
            tokens = sums.tokens,
            ttft_ms,
            ms,
            tok_s = sums.speed(),
            finish = sums.ends.join("+"),
            end,
            error,
            "answered"
        );
    }
}

impl Sums {
    /// Tokens per second after the first one, in tenths; none where there was no second.
    fn speed(&self) -> Option<f64> {
        let took = self.last?.duration_since(self.first?).as_secs_f64();
        let more = self.tokens.checked_sub(1).filter(|more| *more > 0)?;
        (took > 0.0).then(|| (more as f64 / took * 10.0).round() / 10.0)
    }
}
