//! Coming and going: arrive, fork, cancel, discard; and waiting outside the queue while a prefix is being fetched.

use omlx_blocks::{SeqId, Trail};

use crate::seq::Seq;
use crate::{Arrival, Branch, Refused, Sched};

/// What somebody leaves in the cache who goes before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// All that was computed can be found.
    Sound,
    /// A step that failed wrote into the open block.
    HalfWritten,
    /// Nothing is to be found.
    Bad,
}

impl Sched {
    /// Puts a sequence into the queue, or says why not.
    ///
    /// # Panics
    /// If the id is in use.
    pub fn arrive(&mut self, arrival: Arrival) -> Result<(), Refused> {
        self.refusal(arrival.tokens.len())?;
        let trail = self.ledger.trail(&arrival.tokens);
        self.enqueue(arrival, trail);
        Ok(())
    }

    /// Puts a sequence into the queue that begins as `parent` does, or says why not.
    ///
    /// It shares every sealed block that the parent has when it starts and hashes nothing; the tokens of the parent's open
    /// block it computes again. So several answers to one prompt come cheapest when they branch off after the parent's
    /// first token.
    ///
    /// # Panics
    /// If the parent is unknown or has fewer tokens, or the id is in use.
    pub fn fork(&mut self, parent: SeqId, branch: Branch) -> Result<(), Refused> {
        let Branch { seq, tokens, limit, stop, priority } = branch;
        self.refusal(tokens)?;
        let parent = self.seq(parent);
        let trail = parent.trail.cut(tokens / self.ledger.block());
        let tokens = parent.tokens[..tokens].to_vec();
        self.enqueue(Arrival { seq, tokens, limit, stop, priority }, trail);
        Ok(())
    }

    /// Why a prompt of so many tokens cannot be taken now, if so.
    fn refusal(&self, tokens: usize) -> Result<(), Refused> {
        let (context, most) = (self.config.context, self.ledger.capacity());
        let waiting = self.waiting();
        if tokens == 0 {
            return Err(Refused::Empty);
        }
        if tokens >= context {
            return Err(Refused::TooLong { tokens, context });
        }
        if tokens > most {
            return Err(Refused::NeverFits { tokens, most });
        }
        if let Some(why) = self.short_of_memory()
            && !self.is_idle()
        {
            return Err(why);
        }
        if waiting >= self.config.waiting {
            return Err(Refused::Full { waiting });
        }
        Ok(())
    }

    fn enqueue(&mut self, arrival: Arrival, trail: Trail) {
        let seq = arrival.seq;
        let rank = self.order.rank(arrival.priority);
        let known = self.seqs.insert(seq, Seq::new(arrival, rank, trail));
        assert!(known.is_none(), "{seq:?} is in use");
        self.queue(seq);
    }

    /// Puts a known sequence where its rank belongs.
    fn queue(&mut self, seq: SeqId) {
        self.waiting.insert(self.seqs[&seq].rank, seq);
        // A new head has not been tried yet.
        let is_head = self.waiting.first_key_value().is_some_and(|(_, &head)| head == seq);
        self.stuck &= !is_head;
    }

    /// Drops a sequence at once, wherever it is; nothing more is said about it. Unknown ones are fine.
    ///
    /// Between a plan and its settling this is fine too: the row is then ignored, its sampled token included.
    pub fn cancel(&mut self, seq: SeqId) {
        self.drop_as(seq, Left::Sound);
    }

    /// Drops a sequence whose content is not to be trusted, because its logits were not numbers: like
    /// [`cancel`](Self::cancel), but none of the blocks of a running one is found again, neither what this step computed
    /// nor what earlier chunks did nor what it had from the cache. To be said before the step is settled.
    pub fn discard(&mut self, seq: SeqId) {
        self.drop_as(seq, Left::Bad);
    }

    pub(crate) fn drop_as(&mut self, seq: SeqId, left: Left) {
        let Some(own) = self.seqs.remove(&seq) else {
            return;
        };
        self.stuck = false;
        if self.running.remove(&own.rank).is_some() {
            match left {
                Left::Sound => self.ledger.close_with_tail(seq, &own.tokens[..own.computed]),
                Left::HalfWritten => self.ledger.close(seq),
                Left::Bad => self.ledger.discard(seq),
            }
        }
        self.waiting.remove(&own.rank);
        self.aside.remove(&seq);
    }

    /// Takes a waiting sequence out of the queue while its prefix is being fetched from a slower place; others go on. Answers
    /// whether it is out: who runs or is unknown is not.
    pub fn set_aside(&mut self, seq: SeqId) -> bool {
        let waits = self.seqs.get(&seq).is_some_and(|own| self.waiting.remove(&own.rank).is_some());
        if waits {
            self.aside.insert(seq);
            self.stuck = false;
        }
        waits || self.aside.contains(&seq)
    }

    /// Puts a sequence that was set aside back, as if it had come now: nobody who started meanwhile has to give way. What was fetched
    /// has been [adopted](Self::adopt) before. Others are left as they are.
    pub fn take_back(&mut self, seq: SeqId) {
        if self.aside.remove(&seq) {
            let rank = self.order.rank(self.seqs[&seq].priority);
            self.seq_mut(seq).rank = rank;
            self.queue(seq);
        }
    }
}
