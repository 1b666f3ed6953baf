//! One request inside the engine: where its answer goes and how its tokens are drawn.

use omlx_api::{Finish, Logprobs, Reply, Usage};

use crate::sampler::{Drawn, Sampler, Scratch, Unsound};

/// What the engine keeps per request besides what the scheduler knows. Dropped at the request's end.
pub(crate) struct Live {
    pub(crate) reply: Reply,
    pub(crate) sampler: Sampler,
    pub(crate) usage: Usage,
    /// Of the token drawn in this step, until it is sent.
    pub(crate) logprobs: Option<Logprobs>,
}

impl Live {
    /// Notes how much of the prompt the cache had, and tells the client before its first token.
    pub(crate) fn found(&mut self, cached: usize) {
        if self.usage.completion == 0 {
            self.usage.cached = cached;
            self.reply.admitted(cached);
        }
    }

    /// Draws the token that follows `generated` and will stand at `position`; keeps its log-probabilities.
    pub(crate) fn draw(
        &mut self,
        raw: &[f32],
        generated: &[u32],
        position: usize,
        scratch: &mut Scratch,
    ) -> Result<u32, Unsound> {
        let Drawn { id, logprobs } = self.sampler.draw(raw, generated, position, scratch)?;
        self.usage.completion += 1;
        self.logprobs = logprobs;
        Ok(id)
    }

    /// Sends the token drawn in this step.
    pub(crate) fn token(&mut self, id: u32) {
        self.reply.token(id, self.logprobs.take());
    }

    /// Ends the answer.
    pub(crate) fn done(self, why: omlx_sched::Finish) {
        let why = match why {
            omlx_sched::Finish::Stop => Finish::Stop,
            omlx_sched::Finish::Length => Finish::Length,
        };
        self.reply.done(why, self.usage);
    }
}
