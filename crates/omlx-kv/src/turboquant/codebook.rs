//! Levels that make the mean squared error least (Lloyd 1957, Max 1960), computed to twelve digits.
//!
//! Both densities are symmetric, so only levels above zero are unknowns. They are where every level is the mean of its cell and
//! cells end midway between levels: a tridiagonal system of equations, solved by Newton's method from the levels that Panter and Dite's
//! rule gives (their density is the cube root of the numbers').

/// What is rounded: numbers of mean 0 and variance 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Density {
    /// Normal.
    Normal,
    /// The coordinates of a random vector of length √d in as many dimensions: what a rotated head's numbers are exactly.
    Sphere(usize),
}

/// The best levels for a width.
#[derive(Clone, Debug)]
pub struct Levels {
    /// Those above zero, ascending. Below zero stand the same with a minus.
    pub levels: Vec<f64>,
    /// Where cells above zero end, but for the last. Zero is a bound too.
    pub bounds: Vec<f64>,
    /// The mean squared error.
    pub mse: f64,
}

/// What any method must leave of the squared error at least: 4^-bits.
pub fn least_possible(bits: usize) -> f64 {
    4f64.powi(-(bits as i32))
}

/// What the best levels leave at most: √3·π/2 times that (Zador's bound).
pub fn most_with_levels(bits: usize) -> f64 {
    3f64.sqrt() * std::f64::consts::FRAC_PI_2 * least_possible(bits)
}

/// The best `2^bits` levels.
///
/// # Panics
/// Unless `bits` is 1 to 8, and a sphere has four dimensions or more.
pub fn lloyd_max(bits: usize, density: Density) -> Levels {
    assert!((1..=8).contains(&bits), "one to eight bits");
    let shape = Shape::new(density);
    let mut levels = first_guess(1 << (bits - 1), shape.end);
    for _ in 0..200 {
        let step = newton_step(&levels, &shape);
        // half of the step as long as levels would pass one another
        let mut part = 1.0;
        let next = loop {
            let next: Vec<f64> = levels.iter().zip(&step).map(|(x, s)| x - part * s).collect();
            let ascends = next.windows(2).all(|two| two[0] < two[1]);
            if ascends && next[0] > 0.0 && next[next.len() - 1] < shape.end {
                break next;
            }
            part /= 2.0;
        };
        let moved = step.iter().fold(0.0, |most: f64, s| most.max(s.abs()));
        levels = next;
        if moved < 1e-12 {
            break;
        }
    }
    let bounds: Vec<f64> = levels.windows(2).map(|two| (two[0] + two[1]) / 2.0).collect();
    let mse = shape.error(&levels, &bounds);
    Levels { levels, bounds, mse }
}

/// The distance between evenly spaced levels that is best for normal numbers, and the mean squared error.
///
/// # Panics
/// Unless `bits` is 1 to 8.
pub fn best_step(bits: usize) -> (f64, f64) {
    assert!((1..=8).contains(&bits), "one to eight bits");
    let shape = Shape::new(Density::Normal);
    let half = 1usize << (bits - 1);
    let error = |step: f64| {
        let levels: Vec<f64> = (0..half).map(|i| (i as f64 + 0.5) * step).collect();
        let bounds: Vec<f64> = (1..half).map(|i| i as f64 * step).collect();
        shape.error(&levels, &bounds)
    };
    // golden section: the error falls, then rises
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut a, mut b) = (0.0, 8.0 / half as f64);
    while b - a > 1e-8 {
        let (c, d) = (b - golden * (b - a), a + golden * (b - a));
        if error(c) < error(d) {
            b = d;
        } else {
            a = c;
        }
    }
    let step = (a + b) / 2.0;
    (step, error(step))
}

/// A density above zero, scaled to hold all of one half.
struct Shape {
    density: Density,
    scale: f64,
    end: f64,
}

/// Integrals of the density, and of it times x and x².
struct Moments([f64; 3]);

impl Shape {
    fn new(density: Density) -> Self {
        let end = match density {
            Density::Normal => 14.0, // beyond, nothing is left of twelve digits
            Density::Sphere(d) => {
                assert!(d >= 4, "a sphere of four dimensions or more");
                (d as f64).sqrt()
            }
        };
        let mut shape = Self { density, scale: 1.0, end };
        shape.scale = 0.5 / shape.moments(0.0, end).0[0];
        shape
    }

    fn at(&self, x: f64) -> f64 {
        self.scale
            * match self.density {
                Density::Normal => (-x * x / 2.0).exp(),
                Density::Sphere(d) => (1.0 - x * x / d as f64).max(0.0).powf((d as f64 - 3.0) / 2.0),
            }
    }

    /// By Simpson's rule.
    fn moments(&self, from: f64, to: f64) -> Moments {
        const STEP: f64 = 0.002;
        let cells = (((to - from) / (2.0 * STEP)).ceil() as usize).max(8) * 2;
        let h = (to - from) / cells as f64;
        let mut sums = [0.0; 3];
        for i in 0..=cells {
            let x = from + h * i as f64;
            let weight = if i == 0 || i == cells { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
            let f = weight * self.at(x);
            sums = [sums[0] + f, sums[1] + f * x, sums[2] + f * x * x];
        }
        Moments(sums.map(|sum| sum * h / 3.0))
    }

    fn error(&self, levels: &[f64], bounds: &[f64]) -> f64 {
        let ends = bounds.iter().copied().chain([self.end]);
        let starts = [0.0].into_iter().chain(bounds.iter().copied());
        let cell = |(c, (from, to)): (&f64, (f64, f64))| {
            let Moments([m0, m1, m2]) = self.moments(from, to);
            m2 - 2.0 * c * m1 + c * c * m0
        };
        2.0 * levels.iter().zip(starts.zip(ends)).map(cell).sum::<f64>()
    }
}

/// Quantiles of a normal density of variance 3, by the logistic approximation.
fn first_guess(count: usize, end: f64) -> Vec<f64> {
    let level = |i: usize| {
        let p = 0.5 + (i as f64 + 0.5) / (2 * count) as f64;
        3f64.sqrt() * (p / (1.0 - p)).ln() / 1.702
    };
    (0..count).map(|i| level(i).min(end * (0.5 + 0.4 * (i + 1) as f64 / count as f64))).collect()
}

/// How far the levels are from the solution, as far as straight lines tell.
fn newton_step(levels: &[f64], shape: &Shape) -> Vec<f64> {
    let count = levels.len();
    let bound = |i: usize| match i {
        0 => 0.0,
        i if i == count => shape.end,
        i => (levels[i - 1] + levels[i]) / 2.0,
    };
    let (mut below, mut here, mut above, mut off) =
        (vec![0.0; count], vec![1.0; count], vec![0.0; count], vec![0.0; count]);
    for i in 0..count {
        let (from, to) = (bound(i), bound(i + 1));
        let Moments([mass, first, _]) = shape.moments(from, to);
        let mean = first / mass;
        off[i] = levels[i] - mean;
        // a bound moves half as far as either of its levels
        if i > 0 {
            below[i] = -0.5 * shape.at(from) * (mean - from) / mass;
        }
        if i + 1 < count {
            above[i] = -0.5 * shape.at(to) * (to - mean) / mass;
        }
        here[i] += below[i] + above[i];
    }
    // elimination downwards, then substitution upwards
    for i in 1..count {
        let factor = below[i] / here[i - 1];
        here[i] -= factor * above[i - 1];
        off[i] -= factor * off[i - 1];
    }
    for i in (0..count).rev() {
        let next = if i + 1 < count { above[i] * off[i + 1] } else { 0.0 };
        off[i] = (off[i] - next) / here[i];
    }
    off
}

#[cfg(test)]
mod tests;
