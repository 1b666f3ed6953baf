//! A question without an answer to wait for: how much of a prompt would not have to be computed.

use tokio::sync::oneshot::Sender;

/// How quickly a block of a prompt could be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heat {
    /// It is in the engine's cache.
    Hot,
    /// It is in the memory of the host.
    Ram,
    /// It is on disk.
    Disk,
    /// It has to be computed.
    Cold,
}

/// What is known of a prompt at one moment, by the same look that a request gets which comes then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Tokens per block.
    pub block: usize,
    /// Tokens of the prompt that a request would not compute now: those in the cache, and those in slower places where they are
    /// quicker brought back than computed.
    pub cached: usize,
    /// Tokens that are in the cache or in slower places, so that none before them is missing.
    pub kept: usize,
    /// One for each block of the prompt, the one that is not full at its end included. Of a layer that looks back over a window only
    /// blocks count that it would look at.
    pub blocks: Vec<Heat>,
}

/// The engine's end of such a question. Dropping it says that the engine has ended.
#[derive(Debug)]
pub struct Asked(pub(crate) Sender<Known>);

impl Asked {
    /// Answers.
    pub fn answer(self, known: Known) {
        // Whoever has gone does not want to know.
        let _gone = self.0.send(known);
    }
}
