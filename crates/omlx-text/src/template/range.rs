//! `range`, which prints as itself and not as its numbers.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, ErrorKind};

/// What the sandbox of the reference allows.
const MAX_RANGE: i128 = 100_000;

/// Whole numbers from a start, in steps.
#[derive(Debug)]
pub(crate) struct Range {
    start: i64,
    stop: i64,
    step: i64,
    len: usize,
}

/// `range(stop)`, `range(start, stop)`, `range(start, stop, step)`.
pub(crate) fn range(first: i64, second: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (start, stop) = second.map_or((0, first), |stop| (first, stop));
    let step = step.unwrap_or(1);
    let refuse = |reason: String| Err(Error::new(ErrorKind::InvalidOperation, reason));
    if step == 0 {
        return refuse("range: the step must not be zero".into());
    }
    let span = (i128::from(stop) - i128::from(start)) * i128::from(step.signum());
    let len = (span.max(0) + i128::from(step.unsigned_abs()) - 1) / i128::from(step.unsigned_abs());
    match usize::try_from(len) {
        Ok(len) if len as i128 <= MAX_RANGE => Ok(Value::from_object(Range { start, stop, step, len })),
        _ => refuse(format!("a range of {len} numbers, at most {MAX_RANGE} are allowed")),
    }
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let at = key.as_usize().filter(|at| *at < self.len)?;
        // between start and stop, and so no overflow
        Some(Value::from(self.start + i64::try_from(at).ok()? * self.step))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.len)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            1 => write!(f, "range({}, {})", self.start, self.stop),
            step => write!(f, "range({}, {}, {step})", self.start, self.stop),
        }
    }
}
