//! From checked parameters and prompts to running answers: limits, sampling, seeds, and the hand-over to the engine.
//!
//! Whatever can be refused without the engine is refused here, before any stream begins.

use omlx_api::{Fault, Generate, Refusal, Sampling};

use super::ask::Ask;
use crate::account::Account;
use crate::answer::{Answer, Reading};
use crate::catalog::{Bounds, Served};
use crate::entropy::random;
use crate::error::Error;
use crate::metrics::{Ended, Metrics};
use crate::sampling::resolve;

/// A prompt in token ids, and the text to repeat before its answers.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) tokens: Vec<u32>,
    pub(crate) echo: Option<String>,
    /// How its answers are read.
    pub(crate) reading: Reading,
}

/// What the two routes decide differently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The parameter that holds the prompt.
    pub(crate) param: &'static str,
    /// Log-probabilities wanted, as in [`Generate::logprobs`].
    pub(crate) logprobs: Option<usize>,
    /// Most new tokens when nobody says; `None`: what the context leaves.
    pub(crate) most: Option<usize>,
}

/// Starts `n` answers to each prompt; answer `i` of prompt `p` stands at `p * n + i`.
pub(crate) async fn start(
    (metrics, account): (&Metrics, &Account),
    served: &Served,
    ask: &Ask,
    terms: Terms,
    prompts: Vec<Prompt>,
) -> Result<Vec<Answer>, Error> {
    let (sampling, most) = resolve(&ask.settings, &served.owner, served.text.defaults());
    let sampling = Sampling { logit_bias: ask.logit_bias.clone(), ..sampling };
    let most = most.or(terms.most).unwrap_or(usize::MAX);
    let rooms = prompts.iter().map(|prompt| room(served.bounds, prompt, terms)).collect::<Result<Vec<_>, _>>()?;
    tracing::debug!(model = ask.model, prompts = prompts.len(), n = ask.n, most, ?sampling, "answering");

    if most == 0 {
        prompts.iter().try_for_each(|prompt| known(served, ask, terms, prompt))?;
    }

    let mut answers = Vec::with_capacity(prompts.len() * ask.n);
    for (prompt, room) in prompts.iter().zip(rooms) {
        // A given seed draws the same for each prompt, alone or in a list; an open one never does.
        let seed = ask.seed.unwrap_or_else(random);
        for i in 0..ask.n {
            let mut watch = metrics.watch(&served.id, prompt.tokens.len(), account, i == 0);
            let answer = if most == 0 {
                Answer::empty(&served.text, prompt.tokens.len(), watch)
            } else {
                // Far apart, so that the second answer to one seed is not the first answer to the next.
                let seed = seed.wrapping_add((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let sampling = Sampling { seed, ..sampling.clone() };
                let generate = Generate {
                    sampling,
                    stop: if ask.ignore_eos { Vec::new() } else { served.text.stop_ids().to_vec() },
                    logprobs: terms.logprobs,
                    priority: ask.priority,
                    ..Generate::new(prompt.tokens.clone(), most.min(room))
                };
                let ticket = served.engine.generate(generate).await.map_err(|busy| {
                    let error = Error::from(busy);
                    watch.end(Ended::Failed(error.code()));
                    error
                })?;
                let stops = &ask.stops;
                Answer::new(ticket, &served.text, stops, &prompt.reading, (prompt.tokens.len(), watch))
            };
            answers.push(match &prompt.echo {
                Some(text) => answer.led_by(text.clone()),
                None => answer,
            });
        }
    }
    Ok(answers)
}

/// Refuses a prompt that no answer could follow, in the words of a request for an answer.
pub(super) fn bounded(served: &Served, ask: &Ask, prompt: &Prompt, param: &'static str) -> Result<(), Error> {
    let terms = Terms { param, logprobs: None, most: None };
    room(served.bounds, prompt, terms)?;
    known(served, ask, terms, prompt)
}

/// How many tokens the bounds leave after a prompt: at least one, or the prompt is refused.
fn room(bounds: Bounds, prompt: &Prompt, terms: Terms) -> Result<usize, Error> {
    let tokens = prompt.tokens.len();
    if tokens == 0 {
        let expected = "a prompt of at least one token".to_owned();
        return Err(Error::Range { param: terms.param.to_owned(), expected, found: "an empty one".to_owned() });
    }
    let (param, Bounds { context, capacity }) = (terms.param, bounds);
    match bounds.most().checked_sub(tokens) {
        None | Some(0) if tokens >= context => Err(Error::TooLong { param, tokens, context }),
        None | Some(0) => Err(Error::NoMemory { param, tokens, capacity }),
        Some(room) => Ok(room),
    }
}

/// What an engine would refuse, where none is asked.
fn known(served: &Served, ask: &Ask, terms: Terms, prompt: &Prompt) -> Result<(), Error> {
    let vocab = served.text.vocab();
    let biased = ask.logit_bias.iter().map(|(id, _)| id);
    match prompt.tokens.iter().chain(biased).find(|id| usize::try_from(**id).is_ok_and(|id| id >= vocab)) {
        Some(&id) => Err(Error::blamed(Fault::Refused(Refusal::UnknownToken { id, vocab }), &ask.blame(terms.param))),
        None => Ok(()),
    }
}
