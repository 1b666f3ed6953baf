//! What the world knows about one sequence.

use omlx_blocks::Lack;
use omlx_sched::Priority;

use crate::dice::mix;

pub(crate) struct Ticket {
    pub(crate) tokens: Vec<u32>,
    /// `histories[p]` stands for everything up to and including position `p`.
    pub(crate) histories: Vec<u64>,
    pub(crate) prompt: usize,
    pub(crate) limit: usize,
    pub(crate) stop: Vec<u32>,
    pub(crate) priority: Priority,
    /// Its place in the order of everyone: the step it counts from, then the number it got.
    pub(crate) rank: (usize, usize),
    /// `None` while it has had no row since it holds blocks.
    pub(crate) computed: Option<usize>,
    /// The step by which it must have ended.
    pub(crate) deadline: usize,
    /// The round in which its prefix is here; it is out of the queue until then.
    pub(crate) aside_until: Option<usize>,
    /// What was on its way when it was set aside.
    pub(crate) lack: Option<Lack>,
}

impl Ticket {
    pub(crate) fn new(tokens: &[u32], limit: usize, stop: Vec<u32>, priority: Priority) -> Self {
        let mut ticket = Self {
            tokens: Vec::new(),
            histories: Vec::new(),
            prompt: tokens.len(),
            limit,
            stop,
            priority,
            rank: (0, 0),
            computed: None,
            deadline: 0,
            aside_until: None,
            lack: None,
        };
        tokens.iter().for_each(|&token| ticket.push(token));
        ticket
    }

    pub(crate) fn push(&mut self, token: u32) {
        let before = self.histories.last().copied().unwrap_or(1);
        self.histories.push(mix(before ^ (u64::from(token) << 32)));
        self.tokens.push(token);
    }

    /// The most steps it can need once it is the oldest: one token in each.
    pub(crate) fn work(&self) -> usize {
        self.prompt + self.limit
    }
}
