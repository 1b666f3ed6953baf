//! What is refused before the scheduler sees it.

use omlx_api::{Generate, Refusal, Sampling};

use super::check;

fn with(change: impl FnOnce(&mut Sampling)) -> Result<(), Refusal> {
    let mut request = Generate::new(vec![1, 2], 4);
    change(&mut request.sampling);
    check(&request, 10)
}

#[track_caller]
fn refused(change: impl FnOnce(&mut Sampling), want: &str) {
    match with(change) {
        Err(Refusal::OutOfRange { field, .. }) => assert_eq!(field, want),
        other => panic!("{want}: {other:?}"),
    }
}

#[test]
fn numbers_that_make_no_sense() {
    for bad in [f32::NAN, f32::INFINITY, -1.0] {
        refused(|s| s.temperature = bad, "temperature");
        refused(|s| s.top_p = bad, "top_p");
        refused(|s| s.min_p = bad, "min_p");
        refused(|s| s.repetition_penalty = bad, "repetition_penalty");
    }
    refused(|s| s.repetition_penalty = 0.0, "repetition_penalty");
    refused(|s| s.top_p = 1.01, "top_p");
    for bad in [f32::NAN, f32::INFINITY] {
        refused(|s| s.presence_penalty = bad, "presence_penalty");
        refused(|s| s.frequency_penalty = bad, "frequency_penalty");
        refused(|s| s.logit_bias = vec![(0, 1.0), (1, bad)], "logit_bias");
    }
    let none = Generate { limit: 0, ..Generate::new(vec![1], 1) };
    assert!(matches!(check(&none, 10), Err(Refusal::OutOfRange { field: "limit", .. })));
}

#[test]
fn numbers_at_the_edge_are_fine() {
    let edges: [fn(&mut Sampling); 6] = [
        |s| s.temperature = f32::MAX,
        |s| s.top_p = 0.0,
        |s| s.min_p = 1.0,
        |s| s.presence_penalty = -2.0,
        |s| s.logit_bias = vec![(9, f32::NEG_INFINITY)],
        |s| s.top_k = usize::MAX,
    ];
    for edge in edges {
        assert_eq!(with(edge), Ok(()));
    }
}

#[test]
fn ids_the_model_does_not_know() {
    assert_eq!(with(|s| s.logit_bias = vec![(10, 1.0)]), Err(Refusal::UnknownToken { id: 10, vocab: 10 }));
    let request = Generate::new(vec![3, 99], 1);
    assert_eq!(check(&request, 10), Err(Refusal::UnknownToken { id: 99, vocab: 10 }));
}
