//! The door of an engine: many handles on one side, one mailbox on the other.
//!
//! A queue under a mutex with a condition variable, not an async channel: the engine's thread has to sleep without a
//! runtime, a full queue has to be known at once, and closing has to be one atomic act. With the queue and the `open`
//! flag under the same lock no request can slip in after the mailbox has been dropped and then wait for ever.
//! What must stay true: replies are never dropped while the lock is held, since that wakes their readers.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use crate::probe::{Asked, Known};
use crate::reply::{Reply, Ticket, pair};
use crate::{Busy, Generate};

/// Opens a door with room for `depth` requests that the engine has not taken yet (at least 1).
pub fn channel(depth: usize) -> (EngineHandle, Mailbox) {
    let state = State {
        queue: VecDeque::new(),
        open: true,
        stop: Stop::No,
        rung: false,
        handles: 1,
        snapshot: Snapshot::default(),
    };
    let door = Arc::new(Door { depth: depth.max(1), state: Mutex::new(state), changed: Condvar::new() });
    (EngineHandle { door: Arc::clone(&door) }, Mailbox { door })
}

/// What an engine finds in its mailbox.
#[derive(Debug)]
pub enum Command {
    /// A request, and where its answer goes.
    Generate(Box<Generate>, Reply),
    /// A prompt, and where to say how much of it is known.
    Probe(Vec<u32>, Asked),
    /// Stop at this step boundary. Told once.
    Stop,
    /// Somebody has rung the [`Bell`], or a deadline has come: nothing is asked, but the world has changed. Told only to who slept.
    Look,
}

/// What an engine says about itself after each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Sequences that take part in steps.
    pub running: usize,
    /// Sequences that wait for room.
    pub waiting: usize,
    /// Cache blocks that nothing holds.
    pub blocks_free: usize,
    /// Cache blocks in all.
    pub blocks: usize,
    /// Prompt tokens computed since the start.
    pub prompt_tokens: u64,
    /// Tokens generated since the start.
    pub generated_tokens: u64,
    /// Steps that succeeded since the start.
    pub steps: u64,
    /// Steps that failed since the start, each with the requests in it.
    pub failed_steps: u64,
    /// Times that a sequence gave up its blocks and had to wait until it could go on.
    pub parked: u64,
    /// Time spent on steps that succeeded, in microseconds: all but sleep and the wait for the device while others use it.
    pub step_micros: u64,
    /// The part of it between two passes of the model: sampling, booking, telling, taking requests, planning, staging.
    pub host_micros: u64,
}

#[derive(Debug)]
struct Door {
    depth: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Requests and probes.
    queue: VecDeque<Command>,
    /// The mailbox exists.
    open: bool,
    stop: Stop,
    rung: bool,
    handles: usize,
    snapshot: Snapshot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    Asked,
    Told,
}

impl Door {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, so a poisoned one is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client's side: sends requests, reads the snapshot. Cheap to clone.
#[derive(Debug)]
pub struct EngineHandle {
    door: Arc<Door>,
}

impl EngineHandle {
    /// Hands a request over. Never waits: a full mailbox is [`Busy::Full`] at once.
    pub async fn generate(&self, request: Generate) -> Result<Ticket, Busy> {
        let (reply, ticket) = pair();
        self.send(Command::Generate(Box::new(request), reply))?;
        Ok(ticket)
    }

    /// Asks how much of a prompt is known. Answered between two steps; a full mailbox is [`Busy::Full`] at once, and an engine that ends
    /// meanwhile is [`Busy::Stopped`].
    pub async fn probe(&self, tokens: Vec<u32>) -> Result<Known, Busy> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.send(Command::Probe(tokens, Asked(sender)))?;
        receiver.await.map_err(|_dropped| Busy::Stopped)
    }

    fn send(&self, command: Command) -> Result<(), Busy> {
        {
            let mut state = self.door.state();
            if !state.open || state.stop != Stop::No {
                return Err(Busy::Stopped);
            }
            if state.queue.len() >= self.door.depth {
                return Err(Busy::Full);
            }
            state.queue.push_back(command);
        }
        self.door.changed.notify_one();
        Ok(())
    }

    /// What the engine last said about itself, with the requests still in the mailbox counted as waiting.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.door.state();
        let unopened = state.queue.iter().filter(|command| matches!(command, Command::Generate(..))).count();
        Snapshot { waiting: state.snapshot.waiting + unopened, ..state.snapshot }
    }

    /// Whether an engine still holds the mailbox.
    pub fn is_alive(&self) -> bool {
        self.door.state().open
    }

    /// Tells the engine to stop at its next step boundary. Requests that it has not taken yet fail at once.
    pub fn stop(&self) {
        let unopened = {
            let mut state = self.door.state();
            if state.stop == Stop::No {
                state.stop = Stop::Asked;
            }
            std::mem::take(&mut state.queue)
        };
        self.door.changed.notify_one();
        drop(unopened);
    }
}

impl Clone for EngineHandle {
    fn clone(&self) -> Self {
        self.door.state().handles += 1;
        EngineHandle { door: Arc::clone(&self.door) }
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        self.door.state().handles -= 1;
        self.door.changed.notify_one();
    }
}

/// Wakes an engine that sleeps. It keeps neither the engine alive nor its mailbox.
#[derive(Clone, Debug)]
pub struct Bell {
    door: Weak<Door>,
}

impl Bell {
    /// Whether there is still anybody to hear it.
    pub fn is_heard(&self) -> bool {
        self.door.upgrade().is_some_and(|door| door.state().open)
    }

    /// Rings; never waits. Answers whether there is still anybody to hear it.
    pub fn ring(&self) -> bool {
        let Some(door) = self.door.upgrade() else {
            return false;
        };
        let open = {
            let mut state = door.state();
            state.rung = state.open;
            state.open
        };
        door.changed.notify_one();
        open
    }
}

/// The engine's side. Dropping it, also by a panic of the engine's thread, fails every request still in it.
#[derive(Debug)]
pub struct Mailbox {
    door: Arc<Door>,
}

impl Mailbox {
    /// The next command if there is one; never waits. Gone handles are not reported here: their tickets may still be read.
    pub fn try_next(&mut self) -> Option<Command> {
        let mut state = self.door.state();
        if state.stop == Stop::Asked {
            state.stop = Stop::Told;
            return Some(Command::Stop);
        }
        state.queue.pop_front()
    }

    /// Blocks the calling thread, asleep, until there is a request or somebody rings. `None`: told to stop, or all handles are gone, so
    /// nothing can ever come. Meant for an engine that has nothing else to do.
    pub fn wait(&mut self) -> Option<Command> {
        self.sleep(None)
    }

    /// The same for an engine that has something else to wait for: at `deadline` it is told to look, if nothing was said before. That
    /// all handles are gone does not end it.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<Command> {
        self.sleep(Some(deadline))
    }

    fn sleep(&mut self, deadline: Option<Instant>) -> Option<Command> {
        let mut state = self.door.state();
        loop {
            if state.stop != Stop::No {
                state.stop = Stop::Told;
                return None;
            }
            if let Some(command) = state.queue.pop_front() {
                return Some(command);
            }
            if state.handles == 0 && deadline.is_none() {
                return None;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if std::mem::take(&mut state.rung) || left.is_some_and(|left| left.is_zero()) {
                return Some(Command::Look);
            }
            let changed = &self.door.changed;
            state = match left {
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Something that wakes whoever [waits](Self::wait).
    pub fn bell(&self) -> Bell {
        Bell { door: Arc::downgrade(&self.door) }
    }

    /// Tells every handle how the engine is.
    pub fn publish(&self, snapshot: Snapshot) {
        self.door.state().snapshot = snapshot;
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let unopened = {
            let mut state = self.door.state();
            state.open = false;
            std::mem::take(&mut state.queue)
        };
        drop(unopened);
    }
}
