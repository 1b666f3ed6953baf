//! Random rotations of head vectors: signs drawn from a seed, then a Hadamard transform. Afterwards every number of a vector
//! behaves as if drawn from one normal distribution, so that one small codebook fits them all.
//!
//! `R = (H / √2^k ⊗ C) · S` for heads of `2^k · m` numbers, `m` odd: `S` are the signs, `H` is the Hadamard matrix of size `2^k`, and
//! `C` is the discrete Hartley transform of size `m`, `cas(2π·j·k / m) / √m` with `cas = cos + sin` (1 for powers of two). `H / √2^k`
//! and `C` are symmetric and their own inverses, so `R⁻¹ = S · (H / √2^k ⊗ C)`.
//!
//! Signs are version 1 of a counter-based generator, which stored codes depend on and which therefore never changes: with SplitMix64's
//! finalizer `mix`, `key = mix(seed ^ mix(2 · dim + part))` where part is 0 for keys and 1 for values; word `i` is
//! `mix(key + (i + 1) · 0x9e3779b97f4a7c15)`; number `j` changes its sign where bit `j mod 64` of word `j / 64` is set.

/// The version of the generator of signs and of the transform.
pub const ROTATION_VERSION: u32 = 1;

pub(crate) const MAX_DIM: usize = Rotation::MAX_DIM;

/// What a rotation is for: keys and values of one head size have different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Keys, after positions are applied; and queries.
    Keys,
    /// Values.
    Values,
}

/// An orthogonal transform of vectors of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    /// The odd factor of the size.
    odd: usize,
    /// ± 1 / √2^k.
    signs: Vec<f32>,
    /// `[odd, odd]`; empty for powers of two.
    hartley: Vec<f32>,
}

impl Rotation {
    /// The largest head that is rotated.
    pub const MAX_DIM: usize = 1024;

    /// The rotation of vectors of `dim` numbers that `seed` stands for.
    ///
    /// # Panics
    /// When `dim` is 0 or above 1024.
    pub fn new(dim: usize, seed: u64, part: Part) -> Self {
        assert!((1..=MAX_DIM).contains(&dim), "heads have 1 to {MAX_DIM} numbers");
        let odd = dim >> dim.trailing_zeros();
        let key = mix(seed ^ mix(2 * dim as u64 + u64::from(part == Part::Values)));
        let norm = 1.0 / ((dim / odd) as f32).sqrt();
        let sign = |j: usize| {
            let word = mix(key.wrapping_add((j as u64 / 64 + 1).wrapping_mul(GAMMA)));
            if word >> (j % 64) & 1 == 1 { -norm } else { norm }
        };
        Self { odd, signs: (0..dim).map(sign).collect(), hartley: if odd > 1 { hartley(odd) } else { Vec::new() } }
    }

    /// Numbers per vector.
    pub fn dim(&self) -> usize {
        self.signs.len()
    }

    /// `x` becomes `R x`.
    ///
    /// # Panics
    /// When `x` has another size.
    #[inline(always)]
    pub fn forward(&self, x: &mut [f32]) {
        self.sign(x);
        self.transform(x);
    }

    /// `x` becomes `R⁻¹ x`.
    ///
    /// # Panics
    /// When `x` has another size.
    #[inline(always)]
    pub fn inverse(&self, x: &mut [f32]) {
        self.transform(x);
        self.sign(x);
    }

    #[inline(always)]
    fn sign(&self, x: &mut [f32]) {
        assert_eq!(x.len(), self.signs.len(), "a vector of the rotation's size");
        for (x, sign) in x.iter_mut().zip(&self.signs) {
            *x *= sign;
        }
    }

    #[inline(always)]
    fn transform(&self, x: &mut [f32]) {
        let mut half = self.odd;
        if half == 1 && x.len() >= 8 {
            for eight in x.chunks_exact_mut(8) {
                first_three(eight);
            }
            half = 8;
        }
        while half < x.len() {
            for both in x.chunks_exact_mut(2 * half) {
                let (a, b) = both.split_at_mut(half);
                for (a, b) in a.iter_mut().zip(b) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            half *= 2;
        }
        if self.odd > 1 {
            let mut room = [0f32; MAX_DIM];
            let was = &mut room[..self.odd];
            for run in x.chunks_exact_mut(self.odd) {
                was.copy_from_slice(run);
                for (x, row) in run.iter_mut().zip(self.hartley.chunks_exact(self.odd)) {
                    *x = row.iter().zip(&*was).fold(0.0, |sum, (c, x)| sum + c * x);
                }
            }
        }
    }
}

/// The steps with neighbours one, two and four apart, in registers.
#[inline(always)]
fn first_three(x: &mut [f32]) {
    let [a, b, c, d, e, f, g, h] = *x.first_chunk::<8>().expect("eight numbers");
    let [a, b, c, d, e, f, g, h] = [a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h];
    let [a, b, c, d, e, f, g, h] = [a + c, b + d, a - c, b - d, e + g, f + h, e - g, f - h];
    x.copy_from_slice(&[a + e, b + f, c + g, d + h, a - e, b - f, c - g, d - h]);
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finalizer (Steele, Lea and Flood, 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn hartley(m: usize) -> Vec<f32> {
    let entry = |i: usize| {
        // the angle of j·k mod m is the exact one of j·k
        let angle = std::f64::consts::TAU * ((i / m * (i % m)) % m) as f64 / m as f64;
        ((angle.cos() + angle.sin()) / (m as f64).sqrt()) as f32
    };
    (0..m * m).map(entry).collect()
}

#[cfg(test)]
mod tests;
