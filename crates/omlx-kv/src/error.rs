//! What can go wrong with a cache: it does not fit, or an operation failed.

use std::path::PathBuf;

/// A cache operation's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a cache could not be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory budget does not even hold one short sequence.
    #[error(
        "a KV cache of {budget_bytes} bytes is too small: one sequence of {tokens} tokens needs {least_bytes} bytes; \
         raise the cache budget, or use smaller blocks or chunks"
    )]
    Budget {
        /// The budget given.
        budget_bytes: u64,
        /// The smallest that works.
        least_bytes: u64,
        /// Tokens of the sequence that the smallest cache holds.
        tokens: usize,
    },
    /// More tokens than a sequence may have in a [`Solo`](crate::Solo) or [`Rows`](crate::Rows) cache.
    #[error("{tokens} tokens do not fit a cache made for {context} per sequence")]
    Context {
        /// Tokens in all.
        tokens: usize,
        /// The cache's size in tokens.
        context: usize,
    },
    /// There are not enough blocks for a row's next tokens.
    #[error("no blocks are left for a row of {tokens} tokens; let another row leave, or make the cache for more rows")]
    Full {
        /// Tokens that the row would have.
        tokens: usize,
    },
    /// A row cannot be cut back: what its last token would see is gone.
    #[error(
        "cannot cut back to {len} tokens: a window has forgotten everything before position {from}; \
         join a new row with the tokens that are left"
    )]
    Forgotten {
        /// Where the cut was to be.
        len: usize,
        /// The first position that the window still holds.
        from: usize,
    },
    /// A row cannot be cut back: other rows hold the block that would be written again.
    #[error(
        "cannot cut back to {len} tokens, inside a block of {block} that other rows hold too; \
         cut at a multiple of {block}, or join a new row with the tokens that are left"
    )]
    Shared {
        /// Where the cut was to be.
        len: usize,
        /// Tokens per block.
        block: usize,
    },
    /// Stored content does not fit the group it is meant for.
    #[error(
        "a block of group {group} has {expected} bytes, the stored one {found}: it was written for another model or codec"
    )]
    BlockLen {
        /// The group.
        group: usize,
        /// Bytes of a block of this group.
        expected: usize,
        /// Bytes that came.
        found: usize,
    },
    /// Numbers that have no form outside the pools.
    #[error("blocks of type {dtype:?} cannot be stored; take f32, f16 or bf16 for the cache")]
    Unstorable {
        /// The type of the pools.
        dtype: candle_core::DType,
    },
    /// Another process uses a cache folder.
    #[error(
        "the cache folder {} is in use by {holder}; stop that one, or give this one a folder of its own",
        folder.display()
    )]
    FolderInUse {
        /// The folder.
        folder: PathBuf,
        /// Who uses it, as far as it said.
        holder: String,
    },
    /// A cache folder, or a file in it, cannot be used.
    #[error("the cache folder {} cannot be used: {what}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A byte budget below what a store can work with.
    #[error("a cache folder of {budget_bytes} bytes is too small to be of use; give it at least {least_bytes}")]
    FolderBudget {
        /// The budget given.
        budget_bytes: u64,
        /// The smallest that works.
        least_bytes: u64,
    },
    /// A thread could not be started.
    #[error("no thread for reading or writing stored blocks: {0}")]
    Thread(std::io::Error),
    /// A setting of the cache's bits that means nothing.
    #[error(
        "KV bits {text:?}: `{what}` is not understood; write off, 8, 6, 4, 3.5, 3, 2.5 or 2, or bits of keys and of values \
         (2, 3, 4, 6 or 8 each) as in k=4,v=3"
    )]
    Bits {
        /// What was written.
        text: String,
        /// The part of it.
        what: String,
    },
    /// An operation on the tensors failed.
    #[error(transparent)]
    Ops(#[from] omlx_ops::Error),
    /// An error of candle itself.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl From<Error> for candle_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Candle(error) => error,
            other => Self::wrap(other),
        }
    }
}
