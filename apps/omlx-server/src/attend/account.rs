//! What is owed to clients: complete requests whose answers are not sent yet.
//!
//! Half a request is owed nothing, so that it neither holds up the end of the server nor counts as an answer cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Debts of all connections.
#[derive(Default)]
pub(crate) struct Owed(AtomicUsize);

impl Owed {
    /// Whether anybody is owed anything.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Debts of one connection.
pub(super) struct Account {
    answers: AtomicUsize,
    /// Bytes wait for the client to take them; counts among the debts of all.
    blocked: AtomicBool,
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
            blocked: AtomicBool::new(false),
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
        self.blocked.load(Ordering::Relaxed)
    }

    /// Ends once bytes wait for the client to take them.
    pub(super) async fn blocking(&self) {
        // Who is told may come late, and who comes early has to be told.
        while !self.blocked() {
            self.blocking.notified().await;
        }
    }

    /// Bytes sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts bytes that were sent.
    pub(super) fn send(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the client does not take what is sent.
    pub(super) fn block(&self, blocked: bool) {
        match (self.blocked.swap(blocked, Ordering::Relaxed), blocked) {
            (false, true) => {
                self.blocking.notify_one();
                self.all.0.fetch_add(1, Ordering::Relaxed)
            }
            (true, false) => self.all.0.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.block(false);
    }
}

/// One answer that is owed, until dropped.
pub(super) struct Debt(Arc<Account>);

impl Debt {
    pub(super) fn new(account: &Arc<Account>) -> Self {
        account.answers.fetch_add(1, Ordering::Relaxed);
        account.all.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(account))
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        self.0.answers.fetch_sub(1, Ordering::Relaxed);
        self.0.all.0.fetch_sub(1, Ordering::Relaxed);
    }
}
