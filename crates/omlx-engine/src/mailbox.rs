//! Commands in, at step boundaries only.
//!
//! Here a request is checked against the model (the only place that knows its vocabulary), given a sequence, or
//! refused. Here too the scheduler hears how short memory is, and the rows of clients that went away are dropped, wherever they are: queued, in prefill or in decode.

use std::time::Instant;

use omlx_api::{Command, Fault, Generate, Priority, Refusal, Reply, Sampling, Usage};
use omlx_blocks::SeqId;
use omlx_sched::{Arrival, Refused};

use crate::engine::Engine;
use crate::live::Live;
use crate::press::Asked;
use crate::sampler::Sampler;

impl Engine {
    /// Takes what has come since the last step; sleeps when there is nothing to do. False: the engine shall end.
    pub(crate) fn receive(&mut self) -> bool {
        loop {
            // Before anyone is taken: a look from before a sleep is old.
            self.press(Asked::Now);
            // At most a mailbox full, or clients that are quicker than refusals could keep the step waiting.
            for _ in 0..self.depth {
                match self.mailbox.try_next() {
                    Some(Command::Generate(request, reply)) => self.admit(*request, reply),
                    Some(Command::Probe(tokens, asked)) => asked.answer(self.known(&tokens)),
                    Some(Command::Stop) => return false,
                    Some(Command::Look) | None => break,
                }
            }
            self.sweep();
            let next = self.bring_in();
            if self.sched.may_run() {
                return true;
            }
            self.mailbox.publish(self.stats.snapshot(&self.sched));
            self.clock.pause(Instant::now());
            let command = match next {
                Some(next) => self.mailbox.wait_until(next),
                None => self.mailbox.wait(),
            };
            self.clock.resume(Instant::now());
            match command {
                Some(Command::Generate(request, reply)) => self.admit(*request, reply),
                Some(Command::Probe(tokens, asked)) => asked.answer(self.known(&tokens)),
                // Whoever rang has just looked.
                Some(Command::Look) => self.press(Asked::Last),
                Some(Command::Stop) | None => return false,
            }
        }
    }

    /// Drops every request whose ticket is gone.
    fn sweep(&mut self) {
        let sched = &mut self.sched;
        self.live.retain(|&seq, live| {
            let gone = live.reply.is_gone();
            if gone {
                sched.cancel(seq);
            }
            !gone
        });
    }

    fn admit(&mut self, request: Generate, reply: Reply) {
        if reply.is_gone() {
            return;
        }
        if let Err(refusal) = check(&request, self.model.vocab()) {
            return reply.fail(Fault::Refused(refusal));
        }
        // The limits may have changed since the last look, and whoever changed them before asking is judged by the new ones.
        self.press(Asked::Now);
        let seq = SeqId(self.next_seq);
        self.next_seq += 1;
        let Generate { tokens, sampling, limit, stop, logprobs, mask, priority } = request;
        let prompt = tokens.len();
        let priority = match priority {
            Priority::Interactive => omlx_sched::Priority::Interactive,
            Priority::Batch => omlx_sched::Priority::Batch,
        };
        if let Err(refused) = self.sched.arrive(Arrival { seq, tokens, limit, stop, priority }) {
            self.refused(refused);
            return reply.fail(Fault::Refused(refusal(refused)));
        }
        let sampler = Sampler::new(sampling, logprobs, mask, self.sched.tokens(seq));
        let usage = Usage { prompt, ..Usage::default() };
        self.live.insert(seq, Live { reply, sampler, usage, logprobs: None });
        self.look_elsewhere(seq);
    }
}

/// The scheduler's refusal in the words of the door.
pub(crate) fn refusal(refused: Refused) -> Refusal {
    match refused {
        Refused::Full { waiting } => Refusal::Full { waiting },
        Refused::Empty => Refusal::Empty,
        Refused::TooLong { tokens, context } => Refusal::TooLong { tokens, context },
        Refused::NeverFits { tokens, most } => Refusal::NeverFits { tokens, most },
        Refused::Memory { used_bytes, limit_bytes, running, waiting } => {
            Refusal::Memory { used_bytes, limit_bytes, running, waiting }
        }
    }
}

/// What the scheduler cannot know: ids the model has no row for, and numbers that would turn logits into NaN.
fn check(request: &Generate, vocab: usize) -> Result<(), Refusal> {
    let biased = request.sampling.logit_bias.iter().map(|&(id, _)| id);
    if let Some(id) = request.tokens.iter().copied().chain(biased).find(|&id| id as usize >= vocab) {
        return Err(Refusal::UnknownToken { id, vocab });
    }
    if request.limit == 0 {
        return Err(Refusal::OutOfRange { field: "limit", expected: "at least 1" });
    }
    let Sampling { temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty, .. } =
        request.sampling;
    let share = |x: f32| (0.0..=1.0).contains(&x);
    let bias_sound = |&(_, bias): &(u32, f32)| bias < f32::INFINITY; // -inf forbids; NaN fails the comparison
    let fields = [
        ("temperature", temperature.is_finite() && temperature >= 0.0, "a finite number, 0 or more"),
        ("top_p", share(top_p), "between 0 and 1"),
        ("min_p", share(min_p), "between 0 and 1"),
        ("repetition_penalty", repetition_penalty.is_finite() && repetition_penalty > 0.0, "a finite number above 0"),
        ("presence_penalty", presence_penalty.is_finite(), "a finite number"),
        ("frequency_penalty", frequency_penalty.is_finite(), "a finite number"),
        ("logit_bias", request.sampling.logit_bias.iter().all(bias_sound), "numbers below infinity"),
    ];
    match fields.into_iter().find(|(_, sound, _)| !sound) {
        Some((field, _, expected)) => Err(Refusal::OutOfRange { field, expected }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
