//! Codes by comparison are those of the nearest level.

use super::*;

/// How far a code's level is from `y`.
fn off(book: &Codebook, y: f32, unit: f32, code: u8) -> f64 {
    (f64::from(y) - f64::from(unit) * f64::from(book.value(code))).abs()
}

/// Seen to fail: a bound that is the level below it.
#[test]
fn codes_are_of_the_nearest_level() {
    let tables: [&[f32]; 4] = [
        &[-0.8, 0.8],
        &[-1.5, -0.45, 0.45, 1.5],
        &[-2.15, -1.34, -0.76, -0.25, 0.25, 0.76, 1.34, 2.15],
        &[-3.0, -2.5, -1.7, -1.2, -0.9, -0.6, -0.3, -0.1, 0.2, 0.3, 0.7, 0.8, 1.3, 1.9, 2.2, 3.5],
    ];
    let tables = tables.map(|levels| (Codebook::table(levels), 1.0));
    let grids = [(2, 1.0), (3, 0.586), (4, 0.335), (6, 0.104), (8, 0.031)]
        .map(|(bits, step)| (Codebook::grid(bits, step), step));
    for (book, unit) in tables.into_iter().chain(grids) {
        // no multiple of sixteen, and beyond both ends
        let y: Vec<f32> = (-4999..5000).map(|i| i as f32 * 0.001_03).collect();
        let mut codes = vec![0; y.len()];
        let top = ((1u32 << book.bits()) - 1) as u8;
        book.codes(&y, &mut codes);
        for (y, code) in y.iter().zip(codes) {
            // midway between two either will do
            let least = (0..=top).map(|code| off(&book, *y, unit, code)).fold(f64::MAX, f64::min);
            assert!(off(&book, *y, unit, code) < least + 1e-6, "{} bits, {y}: {code}", book.bits());
        }
    }
}

#[test]
fn what_is_no_number_has_a_code_too() {
    for book in [Codebook::table(&[-1.0, 1.0]), Codebook::grid(8, 0.1)] {
        let mut codes = [9; 3];
        book.codes(&[f32::NAN, f32::NEG_INFINITY, f32::INFINITY], &mut codes);
        assert_eq!(codes, [0, 0, ((1u32 << book.bits()) - 1) as u8]);
    }
}

#[test]
#[should_panic(expected = "ascend")]
fn levels_that_bf16_cannot_tell_apart_are_refused() {
    Codebook::table(&[1.0, 1.000_01]);
}
