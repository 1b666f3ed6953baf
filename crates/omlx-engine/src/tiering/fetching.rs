//! Prefixes on their way back into the pools.
//!
//! A sequence whose prefix is in a slower place, and quicker brought from there than computed, is set aside. Between two steps
//! whatever has come is adopted and written into its blocks; then the sequence goes back into the queue, and an ordinary hit
//! finds what is there. So every way in which a fetch can end, too late, cut short or cancelled, leaves nothing but a shorter hit.
//!
//! A second sequence that lacks a block which is on its way already waits for the first one's fetch instead of fetching it again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use omlx_blocks::{BlockKey, GroupId, Lack, Ledger, SeqId, Trail};
use omlx_kv::KvCache;
use omlx_kv::tier::{Fetch, Lies, Next, Tiers, Wanted};
use omlx_sched::Sched;

use crate::engine::Engine;

/// How long blocks are written into their places between two steps of others, and while nobody else runs.
const TURN: Duration = Duration::from_millis(5);
const LONE_TURN: Duration = Duration::from_millis(50);
/// How much longer than expected a fetch may take, and how long it may take in any case.
const LATE: u32 = 3;
const LEAST_TIME: Duration = Duration::from_secs(1);
/// How often one sequence may begin to fetch: again after a chain turned out to be cut.
const ROUNDS: u32 = 3;

/// One sequence's blocks on their way.
pub(super) struct Fetching {
    seq: SeqId,
    fetch: Fetch,
    /// What is asked for, in the order in which it comes.
    blocks: Vec<(GroupId, usize, BlockKey)>,
    /// Tokens that are known once all of them have come.
    there: usize,
    /// How many of them have come.
    come: usize,
    /// They want the same first block.
    followers: Vec<SeqId>,
    deadline: Instant,
    rounds: u32,
}

impl Fetching {
    /// What has not come yet.
    fn coming(&self) -> impl Iterator<Item = &BlockKey> {
        self.blocks[self.come..].iter().map(|(_, _, key)| key)
    }
}

/// How a look at one fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// More will come.
    Wait,
    /// There was no time for more.
    Later,
    /// All has come, or it is to be left at what has.
    Enough,
    /// The chain was shorter than was known.
    Cut,
}

impl Engine {
    /// Looks for a new sequence's prefix in slower places, and sets it aside if that is worth it.
    pub(crate) fn look_elsewhere(&mut self, seq: SeqId) {
        self.fetch(seq, 1);
    }

    fn fetch(&mut self, seq: SeqId, rounds: u32) {
        let Some(tiering) = &mut self.tiering else { return };
        let (sched, tiers) = (&mut self.sched, &tiering.tiers);
        let groups = (0..sched.ledger().groups() as u32).map(GroupId);
        // All of it, what the pools have too: a chain that is used keeps its front in every place.
        groups.for_each(|group| tiers.touch(sched.trail(seq).keys(group)));
        let lack = sched.lack(seq, &|key| tiers.find(key).is_some());
        let blocks = names(sched.ledger(), sched.trail(seq), sched.tokens(seq), &lack);
        let Some(&(_, _, first)) = blocks.first() else {
            return sched.take_back(seq);
        };
        if let Some(other) = tiering.fetching.iter_mut().find(|other| other.coming().any(|key| *key == first)) {
            if sched.set_aside(seq) {
                other.followers.push(seq);
            }
            return;
        }
        let estimate = estimate(tiers, &self.kv, &blocks);
        if rounds > ROUNDS || !tiering.pays(estimate, lack.there - lack.here) {
            tiers.declined();
            return sched.take_back(seq);
        }
        if !sched.set_aside(seq) {
            return;
        }
        sched.freshen(seq, lack.there); // what is here of it is not to make room for the rest
        let bell = tiering.bell.clone();
        let wanted = wanted(sched, &self.kv, seq, &lack, &blocks);
        let fetch = tiers.fetch(wanted, move || {
            bell.ring();
        });
        let deadline = Instant::now() + (estimate * LATE).max(LEAST_TIME);
        let (there, followers) = (lack.there, Vec::new());
        tiering.fetching.push(Fetching { seq, fetch, blocks, there, come: 0, followers, deadline, rounds });
    }

    /// Writes what has come into its blocks, for a little while, and puts back who has all. Answers when to look again, if nobody
    /// rings before: `None` if nothing is on its way.
    pub(crate) fn bring_in(&mut self) -> Option<Instant> {
        let until = Instant::now() + if self.sched.may_run() { TURN } else { LONE_TURN };
        let mut i = 0;
        while i < self.tiering.as_ref()?.fetching.len() {
            let seq = self.tiering.as_ref()?.fetching[i].seq;
            let seen = if self.live.contains_key(&seq) { self.take_in(i, until) } else { Seen::Enough };
            match seen {
                Seen::Wait => i += 1,
                Seen::Later => return Some(Instant::now()),
                Seen::Enough | Seen::Cut => self.fetched(i, seen),
            }
        }
        self.tiering.as_ref()?.fetching.iter().map(|fetching| fetching.deadline).min()
    }

    /// Takes what has come of one fetch.
    fn take_in(&mut self, i: usize, until: Instant) -> Seen {
        let Engine { sched, kv, tiering, .. } = self;
        let tiering = tiering.as_mut().expect("something is being fetched");
        let before = tiering.fetching[i].come;
        let seen = loop {
            let now = Instant::now();
            if now >= until {
                break Seen::Later;
            }
            let fetching = &mut tiering.fetching[i];
            match fetching.fetch.try_next() {
                Next::Block(bytes) => {
                    let (seq, at) = (fetching.seq, fetching.blocks[fetching.come]);
                    fetching.come += 1;
                    let place = sched.adopt(seq, at.0, at.1, fetching.there);
                    tiering.spill(sched, kv);
                    match place {
                        Some(id) => {
                            if let Err(error) = kv.import(at.0, id, &bytes) {
                                tracing::warn!(%error, "a stored block cannot be used");
                                sched.disown(at.0, &at.2);
                                break Seen::Enough;
                            }
                            tiering.tiers.restored(bytes.len() as u64);
                        }
                        // Somebody computed it meanwhile.
                        None if sched.named(at.0, &at.2).is_some() => {}
                        // Every block is held.
                        None => break Seen::Enough,
                    }
                }
                Next::End if fetching.come == fetching.blocks.len() => break Seen::Enough,
                Next::End => break Seen::Cut,
                Next::Wait if now >= fetching.deadline => {
                    tracing::warn!(
                        missing = fetching.blocks.len() - fetching.come,
                        "stored blocks do not come in time; they are computed"
                    );
                    break Seen::Enough;
                }
                Next::Wait => break Seen::Wait,
            }
        };
        let fetching = &tiering.fetching[i];
        if fetching.come > before {
            // The front of a chain goes last, though it came first.
            sched.freshen(fetching.seq, fetching.there);
        }
        seen
    }

    /// Ends a fetch: its sequence goes on, and those who waited for it look again.
    fn fetched(&mut self, i: usize, seen: Seen) {
        let Some(tiering) = &mut self.tiering else { return };
        let Fetching { seq, followers, rounds, .. } = tiering.fetching.remove(i);
        if self.live.contains_key(&seq) {
            match seen {
                Seen::Cut => self.fetch(seq, rounds + 1),
                _ => self.sched.take_back(seq),
            }
        }
        for follower in followers {
            if self.live.contains_key(&follower) {
                self.fetch(follower, rounds + 1);
            }
        }
    }
}

/// What a prompt lacks, by group, index and name.
pub(super) fn names(ledger: &Ledger, trail: &Trail, tokens: &[u32], lack: &Lack) -> Vec<(GroupId, usize, BlockKey)> {
    let name = |&(group, index): &(GroupId, usize)| {
        let run = &tokens[index * ledger.block()..lack.there.min((index + 1) * ledger.block())];
        (group, index, ledger.key(group, trail, index, run))
    };
    lack.blocks.iter().map(name).collect()
}

/// About how long the blocks take.
pub(super) fn estimate(tiers: &Tiers, kv: &KvCache, blocks: &[(GroupId, usize, BlockKey)]) -> Duration {
    let (mut ram, mut disk) = (0, 0);
    for (group, _, key) in blocks {
        let bytes = kv.block_len(*group) as u64;
        *if tiers.find(key) == Some(Lies::Ram) { &mut ram } else { &mut disk } += bytes;
    }
    tiers.estimate(ram, disk)
}

/// The blocks as a store knows them.
fn wanted(sched: &Sched, kv: &KvCache, seq: SeqId, lack: &Lack, blocks: &[(GroupId, usize, BlockKey)]) -> Vec<Wanted> {
    let size = sched.ledger().block();
    let tokens = &sched.tokens(seq)[..lack.there];
    let one = |&(group, index, key): &(GroupId, usize, BlockKey)| {
        let tokens: Arc<[u32]> = tokens[index * size..lack.there.min((index + 1) * size)].into();
        Wanted { key, tokens, len: kv.block_len(group) }
    };
    blocks.iter().map(one).collect()
}
