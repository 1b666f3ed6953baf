//! What can go wrong with a cache: it does not fit, or an operation failed.

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
    /// More tokens than a [`Solo`](crate::Solo) cache was made for.
    #[error("{tokens} tokens do not fit a cache made for {context}")]
    Context {
        /// Tokens in all.
        tokens: usize,
        /// The cache's size in tokens.
        context: usize,
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
