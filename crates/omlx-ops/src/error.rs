//! What can go wrong in an op: operands that do not fit, and whatever candle itself reports.

use candle_core::DType;

/// An op's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an op refused its operands or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two operands disagree, or one has an impossible size.
    #[error("{op}: {what} must be {expected}, found {found}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// Which operand or dimension.
        what: &'static str,
        /// What would have been right.
        expected: String,
        /// What was given.
        found: String,
    },
    /// An operand has a type that the op does not read.
    #[error("{op}: {what} must be one of {expected}, found {found:?}")]
    Dtype {
        /// The operation.
        op: &'static str,
        /// Which operand.
        what: &'static str,
        /// The types that are read.
        expected: &'static str,
        /// The type found.
        found: DType,
    },
    /// A device that this build or this machine does not have.
    #[error("device {name:?} is not available: {why}")]
    Device {
        /// The name asked for.
        name: String,
        /// What to do about it.
        why: &'static str,
    },
    /// The system has no memory for a weight.
    #[error("no memory for {bytes} bytes of weights: {source}; free some, or load a smaller or a more quantised model")]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// An error of candle itself.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl Error {
    pub(crate) fn shape(
        op: &'static str,
        what: &'static str,
        expected: impl std::fmt::Debug,
        found: impl std::fmt::Debug,
    ) -> Self {
        Self::Shape { op, what, expected: format!("{expected:?}"), found: format!("{found:?}") }
    }
}

impl From<Error> for candle_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Candle(error) => error,
            other => Self::wrap(other),
        }
    }
}
