//! What the owner of a server decides about its front door.
//!
//! The key is never shown: `Debug` masks it, nothing logs it and no answer repeats it.

use std::fmt;
use std::time::Duration;

/// Settings of the HTTP side.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// The key that clients have to send; `None` lets everybody in.
    pub api_key: Option<String>,
    /// Without a key: the `Host` names that are answered. `None` answers all. A server on loopback should name itself
    /// here, or a web page whose name is pointed at 127.0.0.1 may read what it answers.
    pub hosts: Option<Vec<String>>,
    /// Largest request body.
    pub body_bytes: usize,
    /// How long a stream may be silent before a comment is sent, so that proxies keep it open; `None` and zero send none.
    pub keep_alive: Option<Duration>,
    /// Most answers that one request may ask for: prompts times `n`.
    pub answers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            api_key: None,
            hosts: None,
            body_bytes: 16 << 20,
            keep_alive: Some(Duration::from_secs(10)),
            answers: 128,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("api_key", &self.api_key.as_ref().map(|_| "***"))
            .field("hosts", &self.hosts)
            .field("body_bytes", &self.body_bytes)
            .field("keep_alive", &self.keep_alive)
            .field("answers", &self.answers)
            .finish()
    }
}
