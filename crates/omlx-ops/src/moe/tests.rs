//! Every routing rule against numbers worked out by hand; experts against the reference, for any company and any format.

use candle_core::{DType, Device, Tensor};

use super::*;
use crate::{Act, Error, Linear, Packed, PackedParts};

const PLAIN: Router = Router { score: Score::Softmax, top: 2, bias: false, groups: None, renorm: false, scale: 1.0 };

#[track_caller]
fn check(how: Router, logits: &[f32], bias: Option<&[f32]>, expected: &[(u32, f32)]) {
    let logits = Tensor::from_slice(logits, (1, logits.len()), &Device::Cpu).unwrap();
    let routes = route(&logits, bias, &how).unwrap();
    assert_eq!(routes.experts, expected.iter().map(|(e, _)| *e).collect::<Vec<_>>(), "{routes:?}");
    for (weight, (_, expected)) in routes.weights.iter().zip(expected) {
        assert!((weight - expected).abs() < 1e-6, "{routes:?}");
    }
}

// e^0, e^1, e^2, e^3 are 1, 2.718282, 7.389056, 20.085537; together 31.192875.

#[test]
fn softmax_over_all() {
    check(PLAIN, &[1.0, 3.0, 0.0, 2.0], None, &[(1, 0.643_914_3), (3, 0.236_882_8)]);
}
#[test]
fn softmax_over_the_chosen() {
    check(Router { renorm: true, ..PLAIN }, &[1.0, 3.0, 0.0, 2.0], None, &[(1, 0.731_058_6), (3, 0.268_941_4)]);
}
#[test]
fn weights_are_scaled_last() {
    let how = Router { renorm: true, scale: 2.5, ..PLAIN };
    check(how, &[1.0, 3.0, 0.0, 2.0], None, &[(1, 1.827_646_4), (3, 0.672_353_6)]);
}
#[test]
fn sigmoid() {
    let how = Router { score: Score::Sigmoid, ..PLAIN };
    check(how, &[1.0, -3.0, 0.0, 2.0], None, &[(3, 0.880_797), (0, 0.731_058_6)]);
}
/// Caught: weights taken with the bias in them.
#[test]
fn the_bias_chooses_and_does_not_weigh() {
    let how = Router { score: Score::Sigmoid, bias: true, ..PLAIN };
    check(how, &[1.0, -3.0, 0.0, 2.0], Some(&[0.0, 1.0, 0.3, 0.0]), &[(1, 0.047_425_87), (3, 0.880_797)]);
}
/// The best expert stands in the group whose best two are worth less: 2.0 + -9 against 1.5 + 1.0.
#[test]
fn groups_are_judged_by_their_best_two() {
    let how = Router { score: Score::Sigmoid, groups: Some(Groups { count: 2, keep: 1 }), ..PLAIN };
    check(how, &[2.0, -9.0, 1.5, 1.0], None, &[(2, 0.817_574_5), (3, 0.731_058_6)]);
}
#[test]
fn of_equal_ones_the_first() {
    check(PLAIN, &[5.0; 4], None, &[(0, 0.25), (1, 0.25)]);
}
#[test]
fn all_sigmoids_zero() {
    let how = Router { score: Score::Sigmoid, renorm: true, ..PLAIN };
    check(how, &[-200.0; 3], None, &[(0, 0.0), (1, 0.0)]);
}

#[test]
fn a_logit_that_is_no_number_shows() {
    let logits = Tensor::new(&[[0.0, f32::NAN, 1.0]], &Device::Cpu).unwrap();
    for score in [Score::Softmax, Score::Sigmoid] {
        let routes = route(&logits, None, &Router { score, ..PLAIN }).unwrap();
        assert!(routes.weights.iter().any(|w| w.is_nan()), "{routes:?}");
    }
}

#[test]
fn rules_that_do_not_fit_are_refused() {
    let logits = Tensor::zeros((1, 6), DType::F32, &Device::Cpu).unwrap();
    let groups = |count, keep| Router { groups: Some(Groups { count, keep }), ..PLAIN };
    for how in
        [Router { top: 0, ..PLAIN }, Router { top: 7, ..PLAIN }, groups(4, 1), groups(6, 2), groups(2, 3), groups(0, 1)]
    {
        assert!(matches!(route(&logits, None, &how), Err(Error::Shape { .. })), "{how:?}");
    }
    assert!(route(&logits, None, &Router { top: 4, ..groups(2, 1) }).is_err(), "too few experts are left");
    assert!(
        route(&logits, Some(&[0.0; 6]), &PLAIN).is_err()
            && route(&logits, None, &Router { bias: true, ..PLAIN }).is_err()
    );
}

fn randn(shape: (usize, usize)) -> Tensor {
    Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap()
}

fn dense((n, k): (usize, usize), bias: bool) -> Linear {
    let bias = bias.then(|| Tensor::randn(0f32, 1.0, n, &Device::Cpu).unwrap());
    Linear::dense(randn((n, k)).to_dtype(DType::BF16).unwrap(), bias).unwrap()
}

fn packed((n, k): (usize, usize), bits: u32, seed: usize) -> Linear {
    let codes = (0..n * k).map(|i| ((i + seed) * 7919 % 251) as u8 & ((1u32 << bits) - 1) as u8).collect();
    let numbers = |step: usize| (0..n * k / 32).map(|i| ((i + seed) * step % 97) as f32 / 500.0 - 0.1).collect();
    let parts = PackedParts { bits, group: 32, shape: (n, k), codes, scales: numbers(31), biases: numbers(57) };
    Linear::packed(Packed::new(&parts).unwrap(), None).unwrap()
}

const HIDDEN: usize = 96;
const WIDTH: usize = 64;

/// Seven experts: bf16, with and without biases, four bits, eight bits, gate and up in different formats.
fn experts() -> Experts {
    let (wide, back) = ((2 * WIDTH, HIDDEN), (HIDDEN, WIDTH));
    let expert = |i: usize| match i {
        0..3 => Expert { gate_up: dense(wide, i == 1), down: dense(back, i == 1) },
        3 | 4 => Expert { gate_up: packed(wide, 4, i), down: packed(back, 4, i + 9) },
        5 => Expert { gate_up: packed(wide, 8, i), down: dense(back, false) },
        _ => {
            let half = (WIDTH, HIDDEN);
            let gate_up = Linear::stack(vec![dense(half, false), packed(half, 4, 77)]).unwrap();
            Expert { gate_up, down: packed(back, 8, 5) }
        }
    };
    Experts::new((0..7).map(expert).collect(), Act::Silu).unwrap()
}

fn bits(t: &Tensor) -> Vec<u32> {
    t.flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
}

/// Faults seen to be caught: rows of the neighbouring expert, weights of the next choice, tokens of one expert in reverse.
#[test]
fn experts_equal_the_reference_and_a_token_its_own_in_any_company() {
    let experts = experts();
    for tokens in [1, 2, 5, 64, 203] {
        let x = randn((tokens, HIDDEN));
        let routes = route(&randn((tokens, 7)), None, &Router { top: 3, ..PLAIN }).unwrap();
        let fast = experts.forward(&x, &routes).unwrap();
        let slow = reference::forward(&experts, &x, &routes).unwrap();
        let largest = slow.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
        let off = (&fast - &slow).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
        // What rounding the activations of packed experts to 8 bits, twice, may do.
        assert!(off < 3e-2 * largest, "{tokens} tokens: off by {off} of {largest}");
        for token in [0, tokens / 2, tokens - 1] {
            let alone = Routes {
                experts: routes.experts[3 * token..][..3].to_vec(),
                weights: routes.weights[3 * token..][..3].to_vec(),
                top: 3,
            };
            let alone = experts.forward(&x.narrow(0, token, 1).unwrap(), &alone).unwrap();
            assert!(bits(&alone) == bits(&fast.narrow(0, token, 1).unwrap()), "token {token} of {tokens}");
        }
    }
}

/// Plain floats have no rounding to hide behind.
#[test]
fn plain_experts_equal_the_reference_closely() {
    let expert = |_| Expert { gate_up: dense((2 * WIDTH, HIDDEN), true), down: dense((HIDDEN, WIDTH), true) };
    let experts = Experts::new((0..5).map(expert).collect(), Act::GeluTanh).unwrap();
    let x = randn((40, HIDDEN));
    let routes = route(&randn((40, 5)), None, &Router { renorm: true, ..PLAIN }).unwrap();
    let slow = reference::forward(&experts, &x, &routes).unwrap();
    let off = (experts.forward(&x, &routes).unwrap() - &slow).unwrap().abs().unwrap().max_all().unwrap();
    let largest = slow.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
    assert!(off.to_scalar::<f32>().unwrap() < 1e-5 * largest);
}

/// One token reads its experts and no other; many tokens read every wanted one once.
#[test]
fn only_the_wanted_are_read_and_once() {
    let experts = experts();
    let one = Routes { experts: vec![4, 0], weights: vec![0.5, 0.5], top: 2 };
    experts.forward(&randn((1, HIDDEN)), &one).unwrap();
    let wanted = experts.bytes_of(4) + experts.bytes_of(0);
    assert_eq!(experts.read_bytes(), wanted as u64);
    let many = Routes { experts: [4, 0].repeat(50), weights: vec![0.5; 100], top: 2 };
    experts.forward(&randn((50, HIDDEN)), &many).unwrap();
    assert_eq!(experts.read_bytes(), 2 * wanted as u64);
    assert!(2 * wanted < experts.bytes());
}

#[test]
fn experts_that_do_not_fit_are_refused() {
    let good = || Expert { gate_up: dense((2 * WIDTH, HIDDEN), false), down: dense((HIDDEN, WIDTH), false) };
    let narrow = || Expert { gate_up: dense((WIDTH, HIDDEN), false), down: dense((HIDDEN, WIDTH), false) };
    assert!(Experts::new(vec![], Act::Silu).is_err());
    assert!(Experts::new(vec![narrow()], Act::Silu).is_err());
    assert!(Experts::new(vec![good(), narrow()], Act::Silu).is_err());
    let experts = Experts::new(vec![good()], Act::Silu).unwrap();
    let routes = |expert, top| Routes { experts: vec![expert; top], weights: vec![1.0; top], top };
    assert!(experts.forward(&randn((1, HIDDEN)), &routes(1, 1)).is_err(), "there is one expert");
    assert!(experts.forward(&randn((2, HIDDEN)), &routes(0, 1)).is_err(), "two tokens and one route");
    assert!(experts.forward(&randn((1, WIDTH)), &routes(0, 1)).is_err());
    let nothing = Routes { experts: vec![], weights: vec![], top: 1 };
    let none = experts.forward(&Tensor::zeros((0, HIDDEN), DType::F32, &Device::Cpu).unwrap(), &nothing).unwrap();
    assert_eq!(none.dims(), [0, HIDDEN]);
}
