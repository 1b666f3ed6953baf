//! The loop: one step after the other, until told to stop, left alone, or broken.
//!
//! Model, cache and scheduler are plain fields of one thread. A panic or a device error while a step is computed ends the
//! requests of that step: half of it may be in the cache and nobody knows which half, so all of its blocks go back and none
//! that it wrote into can be found. Nothing else was touched, so those who wait go on. Several such steps in a row, or a panic
//! in the bookkeeping itself, end the engine; whoever owns the model's folder may load it again.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use candle_core::{Device, Storage, Tensor};
use omlx_api::{Command, Fault, Mailbox, Reply};
use omlx_blocks::SeqId;
use omlx_kv::KvCache;
use omlx_models::Model;
use omlx_sched::{Outcome, Plan, Row, Sampled, Sched};

use crate::clock::{Clock, Span};
use crate::live::Live;
use crate::mailbox::refusal;
use crate::press::Press;
use crate::sampler::{Scratch, Unsound};
use crate::stage::stage;
use crate::stats::{Stats, micros};
use crate::tiering::Tiering;
use crate::turnstile::{Turn, Turnstile};

/// Failed steps in a row after which the engine ends: what failed is then no longer likely to be a request.
const FAILURES: usize = 3;

/// Everything one engine thread owns.
pub(crate) struct Engine {
    pub(crate) device: Device,
    pub(crate) model: Box<dyn Model>,
    pub(crate) kv: KvCache,
    pub(crate) sched: Sched,
    pub(crate) mailbox: Mailbox,
    /// Requests that fit into the mailbox.
    pub(crate) depth: usize,
    pub(crate) turnstile: Arc<Turnstile>,
    /// Where a guard watches.
    pub(crate) press: Option<Press>,
    /// Where there are slower places for blocks.
    pub(crate) tiering: Option<Tiering>,
    /// By sequence, so in order of arrival.
    pub(crate) live: BTreeMap<SeqId, Live>,
    pub(crate) next_seq: u64,
    pub(crate) scratch: Scratch,
    pub(crate) stats: Stats,
    pub(crate) clock: Clock,
    /// Failed steps since the last one that succeeded.
    pub(crate) failures: usize,
}

enum Flow {
    On,
    End,
    Broken(String),
}

impl Engine {
    /// Runs steps until the end, and tells everyone who still waits.
    pub(crate) fn run(mut self) {
        let fault = loop {
            // Unwind safe: after a panic nothing of the engine is used but the replies.
            match catch_unwind(AssertUnwindSafe(|| self.step())) {
                Ok(Flow::On) => {}
                Ok(Flow::End) => break Fault::Stopped,
                Ok(Flow::Broken(reason)) => break Fault::Engine { reason },
                Err(panic) => break Fault::Engine { reason: words(&*panic) },
            }
        };
        if matches!(fault, Fault::Stopped) {
            self.retire();
        }
        self.end(&fault);
    }

    fn step(&mut self) -> Flow {
        if !self.receive() {
            return Flow::End;
        }
        let plan = self.sched.plan();
        self.spill();
        self.parked(plan.parked.len());
        self.stats.parked(plan.parked.len());
        let drawn = match self.compute(&plan) {
            Ok(drawn) => drawn,
            Err(reason) => return self.fail(&plan, &reason),
        };
        self.failures = 0;
        self.stats.count(&plan, &self.sched);
        self.stats.took(drawn.span);
        self.sched.took(&plan, micros(drawn.span.whole()));
        if let Some(tiering) = &mut self.tiering {
            tiering.took(plan.chunk_tokens(), drawn.span.whole());
        }
        for (seq, unsound) in &drawn.failed {
            // before settling: blocks with such numbers in them must not be found again
            match unsound {
                Unsound::NotANumber { .. } => self.sched.discard(*seq),
                Unsound::NothingLeft => self.sched.cancel(*seq), // its own rules are to blame, not the cache
            }
        }
        let outcomes = self.sched.settle(&plan, &drawn.sampled);
        self.keep();
        // Before the events: who reads "done" finds the counts of after it.
        self.mailbox.publish(self.stats.snapshot(&self.sched));
        self.tell(outcomes, drawn.failed);
        Flow::On
    }

    /// Runs a planned step and draws its tokens. The error is the device's or the panic's own words.
    fn compute(&mut self, plan: &Plan) -> Result<Drawn, String> {
        let turnstile = Arc::clone(&self.turnstile);
        let work = || -> candle_core::Result<Drawn> {
            // Before the turn: while others have theirs.
            let batch = stage(plan, &self.sched);
            self.clock.pause(Instant::now());
            let turn = turnstile.enter();
            self.clock.resume(Instant::now());
            self.clock.begins(Instant::now());
            let logits = self.model.forward(&batch, &self.kv)?; // [R, vocab]
            self.draw(plan, &logits, turn)
        };
        // Unwind safe: forward only reads the model and writes blocks of this step, and drawing changes only the requests
        // of this step and the scratch; `fail` drops them all.
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(drawn)) => Ok(drawn),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(words(&*panic)),
        }
    }

    /// Ends everyone in a step that failed, and the engine if it was one too many.
    fn fail(&mut self, plan: &Plan, reason: &str) -> Flow {
        self.failures += 1;
        self.clock.restart(Instant::now());
        self.scratch = Scratch::default();
        // What of the step is still under way must not write into blocks that are given to others.
        if let Err(error) = self.device.synchronize() {
            return Flow::Broken(format!("{reason}; then the device was lost: {error}"));
        }
        if self.failures >= FAILURES {
            return Flow::Broken(format!("{FAILURES} steps in a row have failed, the last one so: {reason}"));
        }
        let failed = self.sched.fail(plan);
        self.keep();
        self.stats.failed();
        self.mailbox.publish(self.stats.snapshot(&self.sched));
        tracing::error!(requests = failed.len(), waiting = self.sched.waiting(), reason, "a step failed");
        for seq in failed {
            let live = self.live.remove(&seq).expect("whoever was in the step is live");
            live.reply.fail(Fault::Step { reason: reason.to_owned() });
        }
        Flow::On
    }

    /// One token for every row that wants logits, in row order. The turn ends as soon as the logits are here.
    fn draw(&mut self, plan: &Plan, logits: &Tensor, turn: Turn<'_>) -> candle_core::Result<Drawn> {
        let wanting: Vec<&Row> = plan.rows.iter().filter(|row| row.logits > 0).collect();
        let vocab = self.model.vocab();
        assert_eq!(logits.dims(), [wanting.len(), vocab], "the model answered for other rows than asked");
        let Engine { sched, live, scratch, clock, .. } = self;
        let mut drawn = Drawn::default();
        if wanting.is_empty() {
            drawn.span = clock.ends(Instant::now());
            return Ok(drawn);
        }
        on_host(logits, |logits| {
            drawn.span = clock.ends(Instant::now());
            drop(turn);
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
    pub(crate) fn tell(&mut self, outcomes: Vec<Outcome>, failed: Vec<(SeqId, Unsound)>) {
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
                    self.refused(why);
                    let live = self.live.remove(&seq).expect("whoever is refused is live");
                    live.reply.fail(Fault::Refused(refusal(why)));
                }
            }
        }
    }

    /// Closes the door, frees the memory, and only then tells those inside: whoever reads "failed" can load again.
    fn end(self, fault: &Fault) {
        let Engine { mut mailbox, live, model, kv, sched, press, .. } = self;
        let mut replies: Vec<Reply> = Vec::new();
        while let Some(command) = mailbox.try_next() {
            if let Command::Generate(_, reply) = command {
                replies.push(reply);
            }
        }
        drop(mailbox);
        replies.extend(live.into_values().map(|live| live.reply));
        drop((model, kv, sched, press));
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
    span: Span,
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
