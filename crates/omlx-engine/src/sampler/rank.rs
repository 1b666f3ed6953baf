//! Order among the tokens of a row, without sorting the row.
//!
//! One definition of "better": the higher logit, and among equals the lower id. Packed into one integer it is
//! cheap to compare, total (no NaN gets here), and the same on every machine.

/// A token's place in the order: smaller is better. High half the logit turned round, low half the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

impl Key {
    pub(super) fn new(logit: f32, id: usize) -> Self {
        // + 0.0 makes -0.0 equal to 0.0, so that two zeros tie and the id decides.
        let bits = (logit + 0.0).to_bits();
        // Rises with the float: negative numbers have their bits turned, positive ones step above them.
        let rising = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        Key(u64::from(!rising) << 32 | id as u64)
    }

    pub(super) fn id(self) -> usize {
        (self.0 & 0xFFFF_FFFF) as usize
    }
}

/// The `k` best tokens of a row, best first, into `best`. Tokens at -inf are no candidates.
///
/// One pass: a token that does not beat the k-th best so far is dropped at once, so for a small `k` almost every
/// token costs one comparison, and memory stays at `2 k` keys.
pub(super) fn best(row: &[f32], k: usize, best: &mut Vec<Key>) {
    best.clear();
    if k == 0 {
        return;
    }
    let room = k.saturating_mul(2).max(64);
    let mut floor = f32::NEG_INFINITY; // the k-th best so far; a later equal has a higher id and loses
    for (id, &logit) in row.iter().enumerate() {
        if logit > floor {
            best.push(Key::new(logit, id));
            if best.len() == room {
                best.select_nth_unstable(k - 1);
                best.truncate(k);
                floor = row[best[k - 1].id()];
            }
        }
    }
    best.sort_unstable();
    best.truncate(k);
}

/// The highest logit of a row, or the first one that is NaN or +inf. -inf is a token that can never come.
pub(super) fn peak(row: &[f32]) -> Result<f32, (usize, f32)> {
    // Sixteen lanes: float comparisons in a single chain would cost four cycles each.
    let mut lanes = [f32::NEG_INFINITY; 16];
    let mut sound = true;
    let (chunks, rest) = row.as_chunks::<16>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            sound &= x < f32::INFINITY; // false for NaN too
            *lane = if x > *lane { x } else { *lane };
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        sound &= x < f32::INFINITY;
        *lane = if x > *lane { x } else { *lane };
    }
    if sound {
        return Ok(lanes.into_iter().fold(f32::NEG_INFINITY, f32::max));
    }
    let found = row.iter().copied().enumerate().find(|(_, x)| x.is_nan() || *x == f32::INFINITY);
    Err(found.expect("a row that is not sound has a value that is not"))
}
