//! Temperature, top-k, top-p, min-p, and the draw among what they leave.
//!
//! Each filter keeps a leading piece of the same order (better logit first, lower id among equals), so together
//! they keep the shortest of the three. Exactly `top_k` tokens stay even when the last ties with the next one;
//! top-p keeps the shortest piece whose share of what top-k left reaches `top_p`, never less than one token.
//! What is left is walked in order of ids, so a filter that removes nothing changes nothing.
//! The whole vocabulary is never sorted: top-k keeps a short list; top-p sums the row into bins and puts in order only
//! the one bin in which the goal is reached.

use omlx_api::Sampling;

use super::heat;
use super::rank::{self, Key};

/// Bins of top-p: 64 to a factor of e, over all that an f32 weight can be.
const BINS_PER_NAT: f32 = 64.0;
const BINS: u16 = 64 * 88;

/// Buffers that live as long as the engine, so that no step allocates a vocabulary.
#[derive(Default)]
pub(super) struct Room {
    pub(super) weights: Vec<f32>,
    pub(super) keys: Vec<Key>,
    places: Vec<u16>,
    bins: Vec<f64>,
}

/// Draws one token of `row`, whose highest logit is `peak` and finite, with `u` in `[0, 1)`.
pub(super) fn draw(row: &[f32], peak: f32, rules: &Sampling, u: f64, room: &mut Room) -> u32 {
    if rules.top_k > 0 && rules.top_k < row.len() {
        return draw_of_few(row, peak, rules, u, room);
    }
    heat::weigh(row, peak, rules.temperature, &mut room.weights);
    if rules.top_p < 1.0 {
        place(row, peak, rules.temperature, &mut room.places);
        let last = edge(row, rules.top_p, room);
        for (id, (weight, &logit)) in room.weights.iter_mut().zip(row).enumerate() {
            *weight = if Key::new(logit, id) <= last { *weight } else { 0.0 };
        }
    }
    walk(&room.weights, rules.min_p, u) as u32
}

/// The same where top-k leaves a short list.
fn draw_of_few(row: &[f32], peak: f32, rules: &Sampling, u: f64, room: &mut Room) -> u32 {
    let Room { weights, keys, .. } = room;
    let weight = |k: &Key| heat::exp((row[k.id()] - peak) / rules.temperature);
    rank::best(row, rules.top_k, keys);
    if rules.top_p < 1.0 {
        let goal = f64::from(rules.top_p) * keys.iter().map(|k| f64::from(weight(k))).sum::<f64>();
        let kept = reach(keys.iter().map(weight), 0.0, goal);
        keys.truncate(kept);
    }
    keys.sort_unstable_by_key(|k| k.id());
    weights.clear();
    weights.extend(keys.iter().map(weight));
    keys[walk(weights, rules.min_p, u)].id() as u32
}

/// How many of `weights` it takes to bring `sum` to `goal`: at least one, at most all.
fn reach(weights: impl ExactSizeIterator<Item = f32>, mut sum: f64, goal: f64) -> usize {
    let all = weights.len();
    for (n, w) in weights.enumerate() {
        sum += f64::from(w);
        if sum >= goal {
            return n + 1;
        }
    }
    all
}

/// The bin of every token: the nearest whole number of 64ths of e that its logit lies below the best one. By the logit
/// and not by the weight, so that bins and keys agree on the order to the last bit.
fn place(row: &[f32], peak: f32, temperature: f32, places: &mut Vec<u16>) {
    let bin = |x: f32| {
        let depth = ((peak - x) / temperature * BINS_PER_NAT).min(f32::from(BINS - 1));
        // Adding 2^23 rounds and leaves the number in the low bits; a conversion would not become vector code.
        (depth + 8_388_608.0).to_bits() as u16
    };
    places.clear();
    places.extend(row.iter().map(|&x| bin(x)));
}

/// The last token of the shortest leading piece that holds `share` of the row's weight.
fn edge(row: &[f32], share: f32, room: &mut Room) -> Key {
    let Room { weights, keys, places, bins } = room;
    bins.clear();
    bins.resize(usize::from(BINS), 0.0);
    for (&place, &w) in places.iter().zip(weights.iter()) {
        bins[usize::from(place)] += f64::from(w);
    }
    let goal = f64::from(share) * bins.iter().sum::<f64>();
    let mut before = 0.0;
    let mut crossing = 0;
    for (n, &sum) in bins.iter().enumerate().filter(|(_, sum)| **sum > 0.0) {
        crossing = n;
        if before + sum >= goal {
            break;
        }
        before += sum;
    }
    keys.clear();
    let inside = places.iter().enumerate().filter(|&(id, &p)| usize::from(p) == crossing && weights[id] > 0.0);
    keys.extend(inside.map(|(id, _)| Key::new(row[id], id)));
    last_of(keys, weights, before, goal)
}

/// The token of `keys` with which the sum reaches the goal, put in order only as far as needed: 128 tokens, then eight
/// times as many, and so on.
fn last_of(keys: &mut [Key], weights: &[f32], mut sum: f64, goal: f64) -> Key {
    let mut done = 0;
    loop {
        let next = (done * 8).max(128).min(keys.len());
        if next < keys.len() {
            keys[done..].select_nth_unstable(next - done - 1);
        }
        keys[done..next].sort_unstable();
        for key in &keys[done..next] {
            sum += f64::from(weights[key.id()]);
            if sum >= goal {
                return *key;
            }
        }
        if next == keys.len() {
            return keys[next - 1]; // rounding left the sum a hair short
        }
        done = next;
    }
}

/// The place of the token at `u` of the way through the weights that are at least `floor` of the best one's.
fn walk(weights: &[f32], floor: f32, u: f64) -> usize {
    let goal = u * heat::total(weights, floor);
    let mut sum = 0.0;
    let mut last = None;
    for (n, &w) in weights.iter().enumerate().filter(|&(_, &w)| w > 0.0 && w >= floor) {
        sum += f64::from(w);
        last = Some(n);
        if sum > goal {
            break;
        }
    }
    // Rounding may leave the sum a hair short of the goal: then it is the last token.
    last.expect("the best token weighs 1, and no filter takes it")
}
