//! The loop: one step after the other, until told to stop, left alone, or broken.
//!
//! Model, cache and scheduler are plain fields of one thread. A panic or a device error within a step ends the engine:
//! half of a step may be in the cache and nobody knows which half, so there is no attempt to go on. Whoever owns the
//! model's folder may load it again.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use candle_core::{Storage, Tensor};
use omlx_api::{Command, Fault, Mailbox, Reply};
use omlx_blocks::SeqId;
use omlx_kv::KvCache;
use omlx_models::Model;
use omlx_sched::{Outcome, Plan, Row, Sampled, Sched};

use crate::live::Live;
use crate::mailbox::refusal;
use crate::sampler::{Scratch, Unsound};
use crate::stage::stage;
use crate::stats::Stats;
use crate::turnstile::Turnstile;

/// Everything one engine thread owns.
pub(crate) struct Engine {
    pub(crate) model: Box<dyn Model>,
    pub(crate) kv: KvCache,
    pub(crate) sched: Sched,
    pub(crate) mailbox: Mailbox,
    /// Requests that fit into the mailbox.
    pub(crate) depth: usize,
    pub(crate) turnstile: Arc<Turnstile>,
    /// By sequence, so in order of arrival.
    pub(crate) live: BTreeMap<SeqId, Live>,
    pub(crate) next_seq: u64,
    pub(crate) scratch: Scratch,
    pub(crate) stats: Stats,
}

enum Flow {
    On,
    End,
}

impl Engine {
    /// Runs steps until the end, and tells everyone who still waits.
    pub(crate) fn run(mut self) {
        let fault = loop {
            // Unwind safe: after a panic nothing of the engine is used but the replies.
            match catch_unwind(AssertUnwindSafe(|| self.step())) {
                Ok(Ok(Flow::On)) => {}
                Ok(Ok(Flow::End)) => break Fault::Stopped,
                Ok(Err(error)) => {
                    break Fault::Engine { reason: error.to_string() };
                }
                Err(panic) => {
                    break Fault::Engine { reason: words(&*panic) };
                }
            }
        };
        self.end(&fault);
    }

    fn step(&mut self) -> candle_core::Result<Flow> {
        if !self.receive() {
            return Ok(Flow::End);
        }
        let plan = self.sched.plan();
        self.stats.count(&plan, &self.sched);
        let drawn = {
            let turnstile = Arc::clone(&self.turnstile);
            let _turn = turnstile.enter();
            let batch = stage(&plan, &self.sched);
            let logits = self.model.forward(&batch, &self.kv)?; // [R, vocab]
            self.draw(&plan, &logits)?
        };
        for (seq, unsound) in &drawn.failed {
            // before settling: blocks with such numbers in them must not be found again
            match unsound {
                Unsound::NotANumber { .. } => self.sched.discard(*seq),
                Unsound::NothingLeft => self.sched.cancel(*seq), // its own rules are to blame, not the cache
            }
        }
        let outcomes = self.sched.settle(&plan, &drawn.sampled);
        // Before the events: who reads "done" finds the counts of after it.
        self.mailbox.publish(self.stats.snapshot(&self.sched));
        self.tell(outcomes, drawn.failed);
        Ok(Flow::On)
    }

    /// One token for every row that wants logits, in row order.
    fn draw(&mut self, plan: &Plan, logits: &Tensor) -> candle_core::Result<Drawn> {
        let wanting: Vec<&Row> = plan.rows.iter().filter(|row| row.logits > 0).collect();
        let vocab = self.model.vocab();
        assert_eq!(logits.dims(), [wanting.len(), vocab], "the model answered for other rows than asked");
        let mut drawn = Drawn::default();
        if wanting.is_empty() {
            return Ok(drawn);
        }
        let Engine { sched, live, scratch, .. } = self;
        on_host(logits, |logits| {
            for (row, raw) in wanting.into_iter().zip(logits.chunks_exact(vocab)) {
                assert_eq!(row.logits, 1, "a row with several logits needs a rule for drawing them");
                let seq = row.seq;
                let live = live.get_mut(&seq).expect("whoever is planned is live");
                let (tokens, prompt) = (sched.tokens(seq), sched.prompt_len(seq));
                live.found(sched.cached(seq));
                let result = live.draw(raw, &tokens[prompt..], tokens.len(), scratch);
                let id = result.unwrap_or_else(|unsound| {
                    drawn.failed.push((seq, unsound));
                    0 // a place in the list; the sequence is cancelled before it is booked
                });
                drawn.sampled.push(Sampled { seq, id });
            }
        })?;
        Ok(drawn)
    }

    /// Sends a step's outcomes to whoever waits for them.
    fn tell(&mut self, outcomes: Vec<Outcome>, failed: Vec<(SeqId, Unsound)>) {
        for (seq, unsound) in failed {
            let live = self.live.remove(&seq).expect("it was live when it was drawn for");
            tracing::warn!(seq = seq.0, %unsound, "no token can be drawn");
            live.reply.fail(Fault::Unsound { reason: unsound.to_string() });
        }
        for outcome in outcomes {
            match outcome {
                Outcome::Token { seq, id } => {
                    self.live.get_mut(&seq).expect("whoever gets a token is live").token(id);
                }
                Outcome::Done { seq, why } => {
                    self.live.remove(&seq).expect("whoever ends is live").done(why);
                }
                Outcome::Refused { seq, why } => {
                    let live = self.live.remove(&seq).expect("whoever is refused is live");
                    live.reply.fail(Fault::Refused(refusal(why)));
                }
            }
        }
    }

    /// Closes the door, frees the memory, and only then tells those inside: whoever reads "failed" can load again.
    fn end(self, fault: &Fault) {
        let Engine { mut mailbox, live, model, kv, sched, .. } = self;
        let mut replies: Vec<Reply> = Vec::new();
        while let Some(command) = mailbox.try_next() {
            if let Command::Generate(_, reply) = command {
                replies.push(reply);
            }
        }
        drop(mailbox);
        replies.extend(live.into_values().map(|live| live.reply));
        drop((model, kv, sched));
        match fault {
            Fault::Stopped => tracing::debug!(open = replies.len(), "engine ended"),
            fault => tracing::error!(open = replies.len(), %fault, "engine died"),
        }
        for reply in replies {
            reply.fail(fault.clone());
        }
    }
}

/// What the rows of one step came to.
#[derive(Default)]
struct Drawn {
    sampled: Vec<Sampled>,
    failed: Vec<(SeqId, Unsound)>,
}

/// Shows `logits` as host memory, without a copy where they already are.
fn on_host(logits: &Tensor, show: impl FnOnce(&[f32])) -> candle_core::Result<()> {
    {
        let (storage, layout) = logits.storage_and_layout();
        if let (Storage::Cpu(cpu), Some((start, end))) = (&*storage, layout.contiguous_offsets()) {
            show(&cpu.as_slice::<f32>()?[start..end]);
            return Ok(());
        }
    }
    show(&logits.flatten_all()?.to_vec1::<f32>()?);
    Ok(())
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without words").to_owned()
}
