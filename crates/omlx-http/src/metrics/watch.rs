//! One answer's times and counts, noted exactly once however it ends.

use std::time::Instant;

use super::Metrics;
use crate::account::Account;

/// How an answer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Complete, for this reason.
    Well(&'static str),
    /// The client went away.
    Abort,
    /// With an error of this code.
    Failed(&'static str),
}

/// Watches one answer. Dropped without an ending, the client has gone.
pub(crate) struct Watch {
    metrics: Metrics,
    model: String,
    prompt: usize,
    begin: Instant,
    last: Option<Instant>,
    ended: bool,
    seen: usize,
    account: Account,
    /// Whether it is the first answer to its prompt, for which the prompt counts.
    first: bool,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch({}, since {:?})", self.model, self.begin)
    }
}

impl Watch {
    pub(super) fn new(metrics: Metrics, model: &str, prompt: usize, account: Account, first: bool) -> Self {
        if first {
            account.prompt(prompt);
        }
        let begin = Instant::now();
        Self { metrics, model: model.to_owned(), prompt, begin, last: None, ended: false, seen: 0, account, first }
    }

    /// A token has come; `cached` of the prompt's were found in the cache.
    pub(crate) fn token(&mut self, cached: usize) {
        let now = Instant::now();
        self.seen += 1;
        self.account.tokens(1, now);
        if self.first && self.last.is_none() {
            self.account.cached(cached);
        }
        match self.last.replace(now) {
            None => self.metrics.begun(&self.model, self.prompt, cached, now - self.begin),
            Some(last) => self.metrics.token(&self.model, now - last),
        }
    }

    /// The answer is complete; it took `tokens`, which may be more than have come this way.
    pub(crate) fn complete(&mut self, why: &'static str, tokens: usize) {
        if let Some(more) = tokens.checked_sub(self.seen).filter(|more| *more > 0) {
            self.account.tokens(more, Instant::now());
            self.metrics.hidden(&self.model, more);
        }
        self.end(Ended::Well(why));
    }

    /// The answer is over. Only the first call counts.
    pub(crate) fn end(&mut self, how: Ended) {
        if !std::mem::replace(&mut self.ended, true) {
            self.account.end(how);
            self.metrics.ended(&self.model, how, self.begin.elapsed());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end(Ended::Abort);
    }
}
