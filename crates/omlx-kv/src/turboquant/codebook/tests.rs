//! Levels against published and independently computed ones.

use super::*;

fn close(found: &[f64], expected: &[f64], within: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < within, "{found} is not {expected}");
    }
}

/// Seen to fail: cells that end at a level.
#[test]
fn normal_levels_to_six_digits() {
    let cases: [(usize, f64, &[f64], &[f64]); 5] = [
        (1, 0.363380, &[0.797885], &[]),
        (2, 0.117482, &[0.452780, 1.510418], &[0.981599]),
        (3, 0.034548, &[0.245094, 0.756005, 1.343909, 2.151946], &[0.500550, 1.049957, 1.747927]),
        (
            4,
            0.009501,
            &[0.128395, 0.388048, 0.656759, 0.942340, 1.256231, 1.618046, 2.069017, 2.732590],
            &[0.258222, 0.522404, 0.799550, 1.099286, 1.437139, 1.843532, 2.400803],
        ),
        (
            5,
            0.002505,
            &[
                0.065890, 0.198052, 0.331378, 0.466700, 0.604934, 0.747136, 0.894565, 1.048783, 1.211804, 1.386340,
                1.576228, 1.787233, 2.028728, 2.317739, 2.691120, 3.260732,
            ],
            &[
                0.131971, 0.264715, 0.399039, 0.535817, 0.676035, 0.820850, 0.971674, 1.130294, 1.299072, 1.481284,
                1.681731, 1.907981, 2.173234, 2.504429, 2.975926,
            ],
        ),
    ];
    for (bits, mse, levels, bounds) in cases {
        let found = lloyd_max(bits, Density::Normal);
        close(&found.levels, levels, 1e-6);
        close(&found.bounds, bounds, 1e-6);
        close(&[found.mse], &[mse], 1e-6);
    }
}

#[test]
fn many_normal_levels() {
    let six = lloyd_max(6, Density::Normal);
    close(&six.levels[..4], &[0.033410, 0.100278, 0.167297, 0.234567], 1e-6);
    close(&six.levels[28..], &[2.672274, 2.917407, 3.240437, 3.744101], 1e-6);
    close(&[six.mse], &[0.000644240], 1e-9);
    let eight = lloyd_max(8, Density::Normal);
    close(&eight.levels[..4], &[0.008446, 0.025339, 0.042235, 0.059135], 1e-6);
    close(&eight.levels[124..], &[3.731666, 3.925638, 4.186595, 4.603536], 1e-6);
    close(&[eight.mse], &[0.000041185], 1e-9);
}

#[test]
fn levels_on_a_sphere() {
    let table = [
        (64, [0.358387, 0.114526, 0.033391, 0.009132]),
        (80, [0.359389, 0.115115, 0.033620, 0.009204]),
        (96, [0.360056, 0.115508, 0.033773, 0.009253]),
        (128, [0.360889, 0.116000, 0.033966, 0.009315]),
        (256, [0.362136, 0.116740, 0.034256, 0.009408]),
        (512, [0.362758, 0.117111, 0.034402, 0.009454]),
    ];
    for (d, mse) in table {
        let found = [1, 2, 3, 4].map(|bits| lloyd_max(bits, Density::Sphere(d)).mse);
        close(&found, &mse, 1e-6);
    }
    let found = lloyd_max(3, Density::Sphere(128));
    close(&found.levels, &[0.244425, 0.753330, 1.336599, 2.131471], 1e-6);
    close(&found.bounds, &[0.498878, 1.044965, 1.734035], 1e-6);
}

/// A level is the mean of its cell, a bound is midway, to nine digits.
#[test]
fn levels_are_means() {
    for bits in [2, 3, 4, 6] {
        let Levels { levels, bounds, .. } = lloyd_max(bits, Density::Normal);
        let shape = Shape::new(Density::Normal);
        let ends: Vec<f64> = [0.0].iter().chain(&bounds).chain(&[shape.end]).copied().collect();
        for (i, level) in levels.iter().enumerate() {
            let Moments([mass, first, _]) = shape.moments(ends[i], ends[i + 1]);
            close(&[*level], &[first / mass], 1e-9);
        }
    }
}

#[test]
fn even_steps() {
    for (bits, step, factor) in [(2, 0.995687, 1.012), (3, 0.586019, 1.084), (4, 0.335201, 1.215), (5, 0.188139, 1.395)]
    {
        let (found, mse) = best_step(bits);
        close(&[found], &[step], 1e-5);
        close(&[mse / lloyd_max(bits, Density::Normal).mse], &[factor], 1e-3);
    }
}
