//! One rule at a time, by small rows that can be checked in the head.

use omlx_api::{Sampling, TokenMask};

use super::super::rank::Key;
use super::{Sampler, Scratch, Unsound, draw, drawn, row_of};

#[test]
fn greedy_takes_the_lowest_of_equals() {
    assert_eq!(drawn(&[1.0, 3.0, 3.0, 2.0], &Sampling::default()), 1);
    assert_eq!(drawn(&[-0.0, 0.0, -1.0], &Sampling::default()), 0, "-0.0 ties with 0.0");
    assert!(Key::new(-0.0, 0) < Key::new(0.0, 1));
}

#[test]
fn filters_that_leave_one_token_are_greedy() {
    let row = row_of(9, 300, 0);
    let best = drawn(&row, &Sampling::default());
    let hot = Sampling { temperature: 1.5, ..Sampling::default() };
    for seed in 0..50 {
        assert_eq!(drawn(&row, &Sampling { top_k: 1, seed, ..hot.clone() }), best);
        assert_eq!(drawn(&row, &Sampling { top_p: 0.0, seed, ..hot.clone() }), best);
        assert_eq!(drawn(&row, &Sampling { min_p: 1.0, seed, ..hot.clone() }), best);
        assert_eq!(drawn(&row, &Sampling { temperature: 1e-42, seed, ..hot.clone() }), best);
    }
}

#[test]
fn a_filter_that_removes_nothing_changes_nothing() {
    let row = row_of(10, 300, 1);
    for seed in 0..50 {
        let plain = Sampling { temperature: 1.0, seed, ..Sampling::default() };
        let want = drawn(&row, &plain);
        assert_eq!(drawn(&row, &Sampling { top_k: 300, ..plain.clone() }), want);
        assert_eq!(drawn(&row, &Sampling { min_p: 1e-9, ..plain }), want);
    }
}

#[test]
fn penalties_follow_their_two_rules() {
    // Token 0 in the prompt only, 1 twice in the answer, 2 unseen.
    let check = |rules: Sampling, row: [f32; 3], want| {
        assert_eq!(draw(&row, &rules, &[0], &[1, 1]).unwrap().id, want, "{rules:?} {row:?}");
    };
    let off = Sampling::default;
    check(Sampling { repetition_penalty: 2.0, ..off() }, [4.0, 4.0, 2.1], 2);
    check(Sampling { repetition_penalty: 2.0, ..off() }, [4.3, 4.0, 2.1], 0);
    check(Sampling { repetition_penalty: 2.0, ..off() }, [-1.0, -1.0, -1.9], 2); // negative: multiplied
    check(Sampling { presence_penalty: 1.0, ..off() }, [0.5, 1.4, 0.3], 0); // prompt is not counted
    check(Sampling { frequency_penalty: 0.5, ..off() }, [0.5, 1.4, 0.3], 0); // twice 0.5
    check(Sampling { frequency_penalty: 0.4, ..off() }, [0.5, 1.4, 0.3], 1);
    check(Sampling { presence_penalty: -1.0, ..off() }, [0.9, 0.0, 0.3], 1); // negative invites
}

/// Caught: counting the whole answer anew at each step.
#[test]
fn penalties_count_each_token_once() {
    let rules = Sampling { frequency_penalty: 0.3, ..Sampling::default() };
    let row = [1.0, 0.95, 0.5];
    let mut sampler = Sampler::new(rules.clone(), None, None, &[2]);
    let mut generated = Vec::new();
    for _ in 0..12 {
        let got = sampler.draw(&row, &generated, 1 + generated.len(), &mut Scratch::default()).unwrap();
        assert_eq!(got, draw(&row, &rules, &[2], &generated).unwrap(), "after {generated:?}");
        generated.push(got.id);
    }
    assert!((0..3).all(|id| generated.contains(&id)), "the penalty moved the choice: {generated:?}");
}

/// Caught: `>` for `>=` where the sum meets the goal exactly.
#[test]
fn top_p_stops_where_the_sum_is_reached() {
    let rules = |seed| Sampling { temperature: 1.0, top_p: 0.5, seed, ..Sampling::default() };
    for seed in 0..200 {
        assert!(drawn(&[1.0; 4], &rules(seed)) < 2);
        assert!(drawn(&[1.0; 8], &Sampling { top_k: 4, ..rules(seed) }) < 2);
    }
}

#[test]
fn bias_forces_and_forbids_whatever_the_penalties_say() {
    let rules = Sampling { logit_bias: vec![(2, 100.0)], repetition_penalty: 100.0, ..Sampling::default() };
    assert_eq!(draw(&[9.0, 8.0, 1.0], &rules, &[2], &[2, 2]).unwrap().id, 2);
    let rules = Sampling { logit_bias: vec![(0, -100.0), (77, 100.0)], ..Sampling::default() };
    assert_eq!(drawn(&[9.0, 8.0, 1.0], &rules), 1, "an id beyond the row is no reason to panic");
}

struct Only(Vec<usize>);
impl TokenMask for Only {
    fn allow(&mut self, accepted: &[u32], allowed: &mut [bool]) {
        let want = self.0.get(accepted.len()).copied();
        for (id, on) in allowed.iter_mut().enumerate() {
            *on = Some(id) == want;
        }
    }
}

#[test]
fn a_mask_beats_bias_and_filters() {
    for temperature in [0.0, 1.0] {
        let rules = Sampling { temperature, top_k: 2, logit_bias: vec![(0, 100.0)], ..Sampling::default() };
        let mut sampler = Sampler::new(rules, Some(1), Some(Box::new(Only(vec![2, 1]))), &[0]);
        let (row, mut scratch) = ([5.0, 1.0, -3.0], Scratch::default());
        let mut next = |generated: &[u32]| sampler.draw(&row, generated, 1 + generated.len(), &mut scratch);
        let first = next(&[]).unwrap();
        assert_eq!(first.id, 2);
        assert_eq!(first.logprobs.unwrap().top[0].0, 0, "log-probabilities are the raw ones");
        assert_eq!(next(&[2]).unwrap().id, 1);
        assert_eq!(next(&[2, 1]), Err(Unsound::NothingLeft));
    }
}

#[test]
fn logprobs_do_not_move_with_the_rules() {
    let row = row_of(21, 500, 3);
    let exact: f64 = row.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln();
    let mut seen = Vec::new();
    for rules in [
        Sampling::default(),
        Sampling { temperature: 1.3, top_k: 1, seed: 5, ..Sampling::default() },
        Sampling { repetition_penalty: 2.0, logit_bias: vec![(3, 2.0)], ..Sampling::default() },
    ] {
        let mut sampler = Sampler::new(rules, Some(3), None, &[1, 2]);
        let got = sampler.draw(&row, &[], 2, &mut Scratch::default()).unwrap();
        let logprobs = got.logprobs.unwrap();
        let want = (f64::from(row[got.id as usize]) - exact) as f32;
        assert!((logprobs.chosen - want).abs() < 1e-5);
        assert!(logprobs.top.windows(2).all(|w| w[0].1 >= w[1].1));
        seen.push(logprobs.top);
    }
    assert_eq!(seen[0].len(), 3);
    assert!(seen.iter().all(|top| *top == seen[0]));
    let mut sampler = Sampler::new(Sampling::default(), Some(0), None, &[]);
    let got = sampler.draw(&row, &[], 0, &mut Scratch::default()).unwrap().logprobs.unwrap();
    assert!(got.top.is_empty());
    let mut sampler = Sampler::new(Sampling::default(), Some(9_999), None, &[]);
    let got = sampler.draw(&[1.0, 2.0], &[], 0, &mut Scratch::default()).unwrap().logprobs.unwrap();
    assert_eq!(got.top.len(), 2, "never more than there are tokens");
}

#[test]
fn a_row_that_is_no_row_is_an_answer_not_a_panic() {
    let hot = Sampling { temperature: 1.0, top_p: 0.9, ..Sampling::default() };
    for rules in [Sampling::default(), hot] {
        for bad in [f32::NAN, f32::INFINITY] {
            for at in [0, 7, 33] {
                let mut row = vec![0.5; 34];
                row[at] = bad;
                let got = draw(&row, &rules, &[], &[]);
                assert!(matches!(got, Err(Unsound::NotANumber { id, .. }) if id == at), "{got:?}");
            }
        }
        assert!(draw(&[f32::NEG_INFINITY; 3], &rules, &[], &[]).is_err());
        let all = Sampling { logit_bias: vec![(0, f32::NEG_INFINITY), (1, f32::NEG_INFINITY)], ..rules };
        assert_eq!(draw(&[1.0, 2.0], &all, &[], &[]), Err(Unsound::NothingLeft));
    }
}

/// Whatever a request's own rules are, a sound row stays sound.
#[test]
fn extreme_rules_do_not_break_a_sound_row() {
    let raw = [5.0, -5.0, 1.0, f32::NEG_INFINITY];
    for (repetition_penalty, presence_penalty, frequency_penalty, bias) in [
        (1.2e-38, 0.0, 0.0, 0.0),
        (f32::MAX, 0.0, 0.0, 0.0),
        (1.0, f32::MAX, f32::MAX, 0.0),
        (1.0, f32::MIN, f32::MAX, 0.0),
        (1.0, f32::MIN, 0.0, f32::MAX),
        (1.0, f32::MAX, 0.0, f32::MIN),
    ] {
        for temperature in [0.0, 1.0] {
            let rules = Sampling {
                temperature,
                repetition_penalty,
                presence_penalty,
                frequency_penalty,
                logit_bias: vec![(0, bias), (1, bias)],
                ..Sampling::default()
            };
            let id = draw(&raw, &rules, &[0, 1, 3], &[0, 1, 3, 3]).expect("a token").id;
            assert!(id < 3, "{id} can never come, {rules:?}");
        }
    }
}
