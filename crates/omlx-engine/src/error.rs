//! Why an engine could not be started.

/// Why an engine could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A limit is 0, so that nothing could ever run.
    #[error("{limit} is 0; it has to be at least 1")]
    Zero {
        /// The field of [`Config`](crate::Config).
        limit: &'static str,
    },
    /// The cache is too small for this model, or could not be had.
    #[error(transparent)]
    Cache(#[from] omlx_kv::Error),
    /// The operating system gave no thread.
    #[error("no thread for the engine: {0}; are there too many threads or too little memory?")]
    Thread(#[from] std::io::Error),
}
