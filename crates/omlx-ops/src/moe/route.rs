//! Which experts a token goes to, and with what weight. Every rule of the published models is a value of [`Router`].

use candle_core::{DType, Tensor};

use crate::threads::{self, SharedMut};
use crate::{Error, Result};

/// How a layer chooses experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// What makes scores of logits.
    pub score: Score,
    /// Experts per token.
    pub top: usize,
    /// Whether a number per expert is added to the scores for choosing, though not for weighing.
    pub bias: bool,
    /// Only experts of the best groups can be chosen.
    pub groups: Option<Groups>,
    /// Whether the weights of those chosen are divided by their sum.
    pub renorm: bool,
    /// Weights are multiplied by this, at last.
    pub scale: f32,
}

/// What makes scores of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Over all experts. Renormalised, it is the softmax over the chosen ones.
    Softmax,
    /// Of each expert by itself.
    Sigmoid,
}

/// Experts in groups of neighbours. A group is as good as its best two experts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// How many there are.
    pub count: usize,
    /// From how many of them experts may be chosen.
    pub keep: usize,
}

/// Where the tokens of a step go.
#[derive(Clone, Debug, PartialEq)]
pub struct Routes {
    /// `[T, top]`: best first, of equal ones the lower number.
    pub experts: Vec<u32>,
    /// `[T, top]`.
    pub weights: Vec<f32>,
    /// Experts per token.
    pub top: usize,
}

/// Added to sums of weights, as the reference does: sigmoids may all be zero.
const TINY: f32 = 1e-20;
/// Tokens that are worth a task.
const GRAIN: usize = 16;

/// Chooses by `logits [T, E]` f32; `bias [E]` goes with [`Router::bias`].
///
/// # Errors
/// When the sizes do not fit one another, or logits are not f32.
pub fn route(logits: &Tensor, bias: Option<&[f32]>, how: &Router) -> Result<Routes> {
    let (tokens, experts) = logits.dims2()?;
    check(experts, bias, how)?;
    if logits.dtype() != DType::F32 {
        return Err(Error::Dtype { op: "route", what: "logits", expected: "F32", found: logits.dtype() });
    }
    let logits: Vec<f32> = logits.flatten_all()?.to_vec1()?;
    let mut chosen = Routes { experts: vec![0; tokens * how.top], weights: vec![0.0; tokens * how.top], top: how.top };
    let (ids, weights) = (SharedMut::new(&mut chosen.experts), SharedMut::new(&mut chosen.weights));
    threads::for_each(tokens.div_ceil(GRAIN), |task| {
        for token in task * GRAIN..((task + 1) * GRAIN).min(tokens) {
            // SAFETY: each token belongs to one task.
            let (ids, weights) =
                unsafe { (ids.slice(token * how.top, how.top), weights.slice(token * how.top, how.top)) };
            one(&logits[token * experts..][..experts], bias, how, ids, weights);
        }
    });
    Ok(chosen)
}

fn check(experts: usize, bias: Option<&[f32]>, how: &Router) -> Result<()> {
    if how.top == 0 || how.top > experts {
        return Err(Error::shape("route", "experts per token", format_args!("1 to {experts}"), how.top));
    }
    if bias.map(<[f32]>::len) != how.bias.then_some(experts) {
        return Err(Error::shape("route", "bias", how.bias.then_some(experts), bias.map(<[f32]>::len)));
    }
    let Some(Groups { count, keep }) = how.groups else { return Ok(()) };
    // Two experts of a group are looked at, and the groups kept must have experts enough.
    let fits = count > 0 && experts.is_multiple_of(count) && experts / count >= 2 && (1..=count).contains(&keep);
    if !fits || keep * (experts / count) < how.top {
        let found = (count, keep);
        return Err(Error::shape("route", "groups of experts", format_args!("some that divide {experts}"), found));
    }
    Ok(())
}

fn one(logits: &[f32], bias: Option<&[f32]>, how: &Router, ids: &mut [u32], weights: &mut [f32]) {
    let scores = scores(how.score, logits);
    let mut choice: Vec<f32> = match bias {
        Some(bias) => scores.iter().zip(bias).map(|(score, bias)| score + bias).collect(),
        None => scores.clone(),
    };
    if let Some(groups) = how.groups {
        only_best_groups(&mut choice, groups);
    }
    for (id, weight) in ids.iter_mut().zip(weights.iter_mut()) {
        let best = best(&choice);
        choice[best] = f32::NEG_INFINITY;
        (*id, *weight) = (best as u32, scores[best]);
    }
    if how.renorm {
        let sum = weights.iter().sum::<f32>() + TINY;
        weights.iter_mut().for_each(|w| *w /= sum);
    }
    weights.iter_mut().for_each(|w| *w *= how.scale);
}

fn scores(score: Score, logits: &[f32]) -> Vec<f32> {
    match score {
        Score::Sigmoid => logits.iter().map(|l| 1.0 / (1.0 + (-l).exp())).collect(),
        Score::Softmax => {
            let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut powers: Vec<f32> = logits.iter().map(|l| (l - largest).exp()).collect();
            let sum: f32 = powers.iter().sum();
            powers.iter_mut().for_each(|p| *p /= sum);
            powers
        }
    }
}

/// The first of the largest. A NaN is larger than any number: it is chosen, and shows in what comes out.
fn best(scores: &[f32]) -> usize {
    let rank = |i: usize| if scores[i].is_nan() { f32::INFINITY } else { scores[i] };
    (1..scores.len()).fold(0, |best, i| if rank(i) > rank(best) { i } else { best })
}

fn only_best_groups(choice: &mut [f32], Groups { count, keep }: Groups) {
    let size = choice.len() / count;
    let mut sums: Vec<f32> = choice
        .chunks_exact(size)
        .map(|group| {
            let first = best(group);
            let second = group
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != first)
                .map(|(_, s)| *s)
                .fold(f32::NEG_INFINITY, f32::max);
            group[first] + second
        })
        .collect();
    let mut kept = vec![false; count];
    for _ in 0..keep {
        let group = best(&sums);
        (kept[group], sums[group]) = (true, f32::NEG_INFINITY);
    }
    for (group, kept) in choice.chunks_exact_mut(size).zip(kept) {
        if !kept {
            group.fill(f32::NEG_INFINITY);
        }
    }
}
