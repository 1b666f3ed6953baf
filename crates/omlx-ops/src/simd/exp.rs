//! The exponential function as plain arithmetic, so that the compiler turns a loop of it into vector code.

/// e^x to 2 ulp between -87 and 88; beyond, e^88 and numbers that fall to 0 at -104. e^-∞ is 0.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
    let x = x.clamp(-104.0, 88.0);
    let n = (x * std::f32::consts::LOG2_E + ROUND) - ROUND;
    // ln 2 in two parts, so that the product with n is exact
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4f32;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let y = p * r * r + r + 1.0;
    // 2^n in two steps, as n reaches -150
    // SAFETY: n is a whole number between -150 and 127; a NaN, whatever it becomes, is replaced below.
    let n = if x.is_nan() { 0 } else { unsafe { n.to_int_unchecked::<i32>() } };
    let half = n / 2;
    let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    let y = y * power(half) * power(n - half);
    if x <= -104.0 { 0.0 } else { y }
}

/// e^x for x of at most 0, to 2 ulp down to -87; beyond, where numbers would no longer be normal, 0. With half the
/// operations of [`exp`]: attention takes one for every pair of query and key.
#[inline(always)]
pub(crate) fn decay(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // as above
    const LEAST: f32 = -87.0;
    let least = if x < LEAST { LEAST } else { x };
    let shifted = least.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, least));
    let p = 1.987_569_1e-4f32;
    let p = p.mul_add(r, 1.398_199_9e-3);
    let p = p.mul_add(r, 8.333_452e-3);
    let p = p.mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 1.666_666_5e-1);
    let p = p.mul_add(r, 0.5);
    let y = p.mul_add(r * r, r) + 1.0;
    // the low bits of `shifted` are n, from -126 to 0: its place in a float is the exponent's
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    if x < LEAST { 0.0 } else { y * power }
}

#[cfg(test)]
mod tests;
