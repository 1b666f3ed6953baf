//! What is owed to clients: complete requests whose answers are not sent yet.
//!
//! Half a request is owed nothing, so that it neither holds up the end of the server nor counts as an answer cut off.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// Debts of all connections.
#[derive(Default)]
pub(crate) struct Owed {
    debts: AtomicUsize,
    asked: AtomicU64,
    answered: AtomicU64,
}

impl Owed {
    /// Whether anybody is owed anything.
    pub(crate) fn any(&self) -> bool {
        self.debts.load(Ordering::Relaxed) > 0
    }

    /// Complete requests since the start.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Those of them whose answers were handed over to the last byte.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

/// Debts of one connection.
pub(super) struct Account {
    answers: AtomicUsize,
    /// Since when bytes wait for the client to take the next of them; counts among the debts of all.
    blocked: Mutex<Option<Instant>>,
    /// Told when they begin to wait.
    blocking: Notify,
    /// Bytes that the system took for the client.
    sent: AtomicU64,
    all: Arc<Owed>,
}

impl Account {
    pub(super) fn new(all: Arc<Owed>) -> Self {
        Self {
            answers: AtomicUsize::new(0),
            blocked: Mutex::new(None),
            blocking: Notify::new(),
            sent: AtomicU64::new(0),
            all,
        }
    }

    /// Whether an answer is being made.
    pub(super) fn answering(&self) -> bool {
        self.answers.load(Ordering::Relaxed) > 0
    }

    /// Whether an answer is being made or is on its way.
    pub(super) fn owes(&self) -> bool {
        self.answering() || self.blocked()
    }

    /// Whether bytes wait for the client to take them.
    pub(super) fn blocked(&self) -> bool {
        self.waiting().is_some()
    }

    /// Since when the client has taken nothing of what waits for it; ends once there is something.
    pub(super) async fn deaf_since(&self) -> Instant {
        loop {
            // Who is told may come late, and who comes early has to be told.
            let since = *self.waiting();
            match since {
                Some(since) => return since,
                None => self.blocking.notified().await,
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Instant>> {
        // A time is never half written.
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts bytes that were sent.
    pub(super) fn send(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the client does not take what is sent. What it takes in between ends one wait and begins the next.
    pub(super) fn block(&self, blocked: bool) {
        let mut waiting = self.waiting();
        match (waiting.is_some(), blocked) {
            (false, true) => {
                *waiting = Some(Instant::now());
                self.all.debts.fetch_add(1, Ordering::Relaxed);
                self.blocking.notify_one();
            }
            (true, false) => {
                *waiting = None;
                self.all.debts.fetch_sub(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.block(false);
    }
}

/// One answer that is owed, until dropped.
pub(super) struct Debt {
    account: Arc<Account>,
    paid: AtomicBool,
}

impl Debt {
    pub(super) fn new(account: &Arc<Account>) -> Self {
        account.answers.fetch_add(1, Ordering::Relaxed);
        account.all.debts.fetch_add(1, Ordering::Relaxed);
        account.all.asked.fetch_add(1, Ordering::Relaxed);
        Self { account: Arc::clone(account), paid: AtomicBool::new(false) }
    }

    /// Its last byte has been handed over. Counts once.
    pub(super) fn pay(&self) {
        if !self.paid.swap(true, Ordering::Relaxed) {
            self.account.all.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        self.account.answers.fetch_sub(1, Ordering::Relaxed);
        self.account.all.debts.fetch_sub(1, Ordering::Relaxed);
    }
}
