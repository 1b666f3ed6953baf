//! A random number that depends on (seed, position) and on nothing else.
//!
//! Counter-based: there is no state to share, so a request's choices cannot depend on its neighbours, on the
//! size of the chunks, or on how often it was parked and came back. The generator is SplitMix64 (Steele, Lea
//! and Flood, 2014): its n-th output is a pure function of start and n. The start is the seed put through the
//! same mixer once, or the streams of seeds that lie one step apart would be shifted copies of each other.
//! The numbers are part of the promise "same seed, same answer": changing them is a breaking change.

/// The odd constant by which SplitMix64 counts: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's mixer: every input bit reaches every output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Output number `n` (from 0) of SplitMix64 started at `start`.
pub(super) fn split_mix(start: u64, n: u64) -> u64 {
    mix(start.wrapping_add(STEP.wrapping_mul(n.wrapping_add(1))))
}

/// Evenly spread in `[0, 1)`, 53 bits, for the token that will stand at `position` of its sequence.
pub(super) fn uniform(seed: u64, position: usize) -> f64 {
    let bits = split_mix(mix(seed.wrapping_add(STEP)), position as u64);
    // 53 bits: all that an f64 below 1 can hold, so 1.0 itself never comes out.
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
