//! Log-probabilities as the model gave them: the raw log-softmax, before penalties, bias, mask and filters.
//!
//! So the values do not move with temperature or top-p, and a token that a bias forced shows its true (low) value.

use omlx_api::Logprobs;

use super::filter::Room;
use super::{heat, rank};

/// The chosen token's value and the `n` highest of the row, best first. `peak` is the row's highest logit.
pub(super) fn of(row: &[f32], peak: f32, chosen: u32, n: usize, room: &mut Room) -> Logprobs {
    heat::weigh(row, peak, 1.0, &mut room.weights);
    let base = f64::from(peak) + heat::total(&room.weights, 0.0).ln();
    let value = |id: usize| (f64::from(row[id]) - base) as f32;
    rank::best(row, n, &mut room.keys);
    Logprobs { chosen: value(chosen as usize), top: room.keys.iter().map(|k| (k.id() as u32, value(k.id()))).collect() }
}
