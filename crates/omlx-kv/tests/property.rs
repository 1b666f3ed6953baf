//! Rows against a naive cache: a list of tokens per row, and attention over the list.
//!
//! The key of a token is a hash of everything up to it, as in a real model the keys of every layer but the first are; so a block
//! in another row's place shows even where the tokens are the same. Faults seen to be caught: a fork that counts its open block as
//! computed; a cut that leaves `computed` where it was; sealing what is pending; the first row's table staged for all; windows
//! that move on before a cut. Half of the groups are coded: there the list holds what each vector is by itself after coding. Seen to be
//! caught too: values coded as keys are.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use candle_core::{DType, Device, Tensor};
use half::f16;
use omlx_kv::{Attend, Batch, Codec, Error, Feed, KvGroup, KvLayout, Reach, Rows, SeqId, Turbo, Width};
use proptest::prelude::*;

const HEADS: usize = 1;
const DIM: usize = 4;
const CONTEXT: usize = 40;

/// A key, value or query in [-1, 1), by what it is of.
fn vector(of: &[u32], salt: u32) -> [f32; DIM] {
    let number = |i| {
        let mut hasher = DefaultHasher::new();
        (of, salt, i).hash(&mut hasher);
        (hasher.finish() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    [0, 1, 2, 3].map(number)
}

/// A group: how far it looks and how it stores.
type Group = (Reach, Codec);

/// A key and a value after they were stored.
fn stored(codec: Codec, (k, v): ([f32; DIM], [f32; DIM])) -> ([f32; DIM], [f32; DIM]) {
    let Codec::Turbo(turbo) = codec else { return (k, v) };
    let (keys, values) = turbo.codings(DIM);
    let through = |coding: &omlx_ops::Coding, x: [f32; DIM]| {
        let (mut codes, mut scale, mut back) = (vec![0; coding.code_bytes()], [f16::ZERO], [0.0; DIM]);
        coding.encode(&x, &mut codes, &mut scale).unwrap();
        coding.decode(&codes, &scale, &mut back).unwrap();
        back
    };
    (through(&keys, k), through(&values, v))
}

/// Attention of the last token of `tokens` over those it sees.
fn naive(tokens: &[u32], (reach, codec): Group, layer: u32) -> [f64; DIM] {
    let pos = tokens.len() - 1;
    let q = vector(tokens, 3 * layer);
    let seen = (0..=pos).filter(|at| reach.sees(pos, *at));
    let (mut sum, mut out) = (0.0, [0.0; DIM]);
    for at in seen {
        let (k, v) = stored(codec, (vector(&tokens[..=at], 3 * layer + 1), vector(&tokens[..=at], 3 * layer + 2)));
        let score: f64 = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(k)).sum();
        sum += (4.0 * score).exp();
        out.iter_mut().zip(v).for_each(|(o, v)| *o += (4.0 * score).exp() * f64::from(v));
    }
    out.map(|o| o / sum)
}

#[derive(Clone, Debug)]
enum Move {
    Join {
        stem: u32,
        len: usize,
    },
    /// Each row feeds as many tokens as its turn in the list says, if it can.
    Feed {
        lens: Vec<usize>,
        token: u32,
    },
    Fork {
        which: usize,
    },
    Cut {
        which: usize,
        back: usize,
    },
    Leave {
        which: usize,
    },
    Discard {
        which: usize,
    },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = (prop::collection::vec(0..7usize, 1..5), 0..3u32).prop_map(|(lens, token)| Move::Feed { lens, token });
    let any = prop_oneof![
        2 => (0..2u32, 0..14usize).prop_map(|(stem, len)| Move::Join { stem, len }),
        6 => step,
        2 => (0..8usize).prop_map(|which| Move::Fork { which }),
        3 => (0..8usize, 0..14usize).prop_map(|(which, back)| Move::Cut { which, back }),
        1 => (0..8usize).prop_map(|which| Move::Leave { which }),
        1 => (0..8usize).prop_map(|which| Move::Discard { which }),
    ];
    prop::collection::vec(any, 1..40)
}

fn reach(block: usize) -> impl Strategy<Value = Reach> {
    prop_oneof![
        Just(Reach::All),
        (1..=2 * block).prop_map(Reach::Last),
        (1..=block + 1, 1..=2 * block).prop_map(|(first, last)| Reach::Keep { first, last }),
    ]
}

fn codec() -> impl Strategy<Value = Codec> {
    let width = || prop::sample::select(&Width::ALL[..]);
    let turbo = (width(), width(), 0..3u64).prop_map(|(keys, values, seed)| Codec::Turbo(Turbo { keys, values, seed }));
    prop_oneof![Just(Codec::Plain(DType::F32)), turbo]
}

struct World {
    rows: Rows,
    groups: Vec<Group>,
    naive: BTreeMap<SeqId, Vec<u32>>,
}

impl World {
    fn new(groups: Vec<Group>, block: usize, room: usize) -> Self {
        let group = |(layer, (reach, codec)): (usize, &Group)| KvGroup {
            layers: vec![layer],
            heads: HEADS,
            dim: DIM,
            reach: *reach,
            codec: *codec,
        };
        let layout = KvLayout { groups: groups.iter().enumerate().map(group).collect() };
        let rows = Rows::new(layout, room, CONTEXT, block, &Device::Cpu).unwrap();
        World { rows, groups, naive: BTreeMap::new() }
    }

    fn pick(&self, which: usize) -> Option<SeqId> {
        self.naive.keys().copied().nth(which % self.naive.len().max(1))
    }

    fn make(&mut self, m: &Move) {
        match m {
            Move::Join { stem, len } => {
                let tokens: Vec<u32> = (0..*len as u32).map(|i| (i * i + stem) % 3).collect();
                let row = self.rows.join(&tokens).unwrap();
                self.naive.insert(row, tokens);
            }
            Move::Feed { lens, token } => self.feed(lens, *token),
            Move::Fork { which } => {
                let Some(row) = self.pick(*which).filter(|_| self.naive.len() < 8) else { return };
                let branch = self.rows.fork(row);
                self.naive.insert(branch, self.naive[&row].clone());
            }
            Move::Cut { which, back } => {
                let Some(row) = self.pick(*which) else { return };
                let list = self.naive.get_mut(&row).unwrap();
                let len = list.len().saturating_sub(*back);
                match self.rows.truncate(row, len) {
                    Ok(()) => list.truncate(len),
                    Err(Error::Forgotten { .. }) => {
                        assert!(
                            len > 0 && self.groups.iter().any(|(reach, _)| *reach != Reach::All),
                            "refused for nothing"
                        );
                    }
                    Err(Error::Shared { block, .. }) => assert!(len % block > 0, "refused at a block's edge"),
                    Err(other) => panic!("{other}"),
                }
            }
            Move::Leave { which } => {
                let Some(row) = self.pick(*which) else { return };
                self.rows.leave(row);
                self.naive.remove(&row);
            }
            Move::Discard { which } => {
                let Some(row) = self.pick(*which) else { return };
                self.rows.discard(row);
                self.naive.remove(&row);
            }
        }
        self.rows.ledger().check();
        for (row, list) in &self.naive {
            assert_eq!(self.rows.tokens(*row), list);
        }
    }

    fn feed(&mut self, lens: &[usize], token: u32) {
        let mut next: Vec<(SeqId, Vec<u32>)> = Vec::new();
        for (i, (row, list)) in self.naive.iter().enumerate() {
            let len = lens[i % lens.len()].min(CONTEXT - list.len());
            if len + self.rows.pending(*row) > 0 {
                next.push((*row, (0..len as u32).map(|k| (token + k * i as u32) % 3).collect()));
            }
        }
        if next.is_empty() {
            return;
        }
        let feeds: Vec<Feed<'_>> = next.iter().map(|(row, tokens)| Feed { row: *row, tokens, logits: 0 }).collect();
        match self.rows.step(&feeds) {
            Ok(batch) => {
                for (row, tokens) in &next {
                    self.naive.get_mut(row).unwrap().extend(tokens);
                }
                self.run(&batch, &feeds);
            }
            Err(Error::Full { .. }) => {
                let leaver = *self.naive.keys().next_back().unwrap();
                assert!(self.naive.len() > 1, "one row always has room");
                self.rows.leave(leaver);
                self.naive.remove(&leaver);
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Plays the model: writes every token of the batch, and compares what each sees with the list.
    fn run(&self, batch: &Batch, feeds: &[Feed<'_>]) {
        let prefixes: Vec<&[u32]> = feeds
            .iter()
            .enumerate()
            .flat_map(|(i, feed)| {
                let list = &self.naive[&feed.row];
                let tokens = (batch.starts[i + 1] - batch.starts[i]) as usize;
                (list.len() - tokens..list.len()).map(move |pos| &list[..=pos])
            })
            .collect();
        assert!(prefixes.iter().zip(&batch.positions).all(|(p, pos)| p.len() == *pos as usize + 1));
        for (layer, group) in self.groups.iter().enumerate() {
            let (reach, codec) = *group;
            let x = |part: u32| {
                let all: Vec<f32> = prefixes.iter().flat_map(|p| vector(p, 3 * layer as u32 + part)).collect();
                Tensor::from_vec(all, (prefixes.len(), HEADS, DIM), &Device::Cpu).unwrap() // [T, H, D]
            };
            let kv = self.rows.cache().layer(layer, batch);
            kv.write(&x(1), &x(2)).unwrap();
            let how = Attend { scale: 4.0, reach, softcap: None, sinks: None };
            let out = kv.attend(&x(0), &how).unwrap().to_vec3::<f32>().unwrap();
            for (prefix, out) in prefixes.iter().zip(out) {
                for (ours, theirs) in out[0].iter().zip(naive(prefix, *group, layer as u32)) {
                    let off = (f64::from(*ours) - theirs).abs();
                    assert!(off < 1e-5, "{reach:?}, {codec:?} at {}: off by {off}", prefix.len() - 1);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn rows_see_what_a_list_would(
        (block, groups) in (1..=4usize)
            .prop_flat_map(|block| (Just(block), prop::collection::vec((reach(block), codec()), 1..4))),
        room in 1..5usize,
        moves in moves(),
    ) {
        let mut world = World::new(groups, block, room);
        for m in &moves {
            world.make(m);
        }
    }
}

fn world(reaches: &[Reach], block: usize) -> World {
    // every other group coded
    let codec = |i: usize| match i % 2 {
        0 => Codec::Plain(DType::F32),
        _ => Codec::Turbo(Turbo { keys: Width::Four, values: Width::Three, seed: 0 }),
    };
    World::new(reaches.iter().enumerate().map(|(i, reach)| (*reach, codec(i))).collect(), block, 4)
}

fn feed(len: usize) -> Move {
    Move::Feed { lens: vec![len], token: 1 }
}

/// PFX-2: a window that has moved on refuses, and nothing has changed; joining anew is the way out.
#[test]
fn pfx_2_a_refused_cut_leaves_the_row_as_it_was() {
    let mut world = world(&[Reach::All, Reach::Last(5)], 4);
    world.make(&Move::Join { stem: 0, len: 13 });
    [20, 1, 1].iter().for_each(|len| world.make(&feed(*len)));
    let row = world.pick(0).unwrap();
    let before = world.naive[&row].clone();
    assert!(matches!(world.rows.truncate(row, 10), Err(Error::Forgotten { len: 10, from }) if from > 10));
    assert_eq!(world.rows.tokens(row), before);
    world.make(&feed(2));
    let anew = world.rows.join(&before[..10]).unwrap();
    world.naive.insert(anew, before[..10].to_vec());
    world.make(&feed(3));
}

/// Drafted tokens that are not accepted: the last step can be taken back across a window's edge.
#[test]
fn what_the_last_step_fed_can_always_be_taken_back() {
    for reach in [Reach::Last(3), Reach::Last(4), Reach::Keep { first: 2, last: 3 }] {
        let mut world = world(&[reach, Reach::All], 4);
        world.make(&Move::Join { stem: 1, len: 9 });
        world.make(&feed(1));
        for back in [3, 4, 1, 2, 4] {
            world.make(&feed(4));
            let (row, len) = (world.pick(0).unwrap(), world.naive.values().next().unwrap().len() - back);
            world.rows.truncate(row, len).unwrap();
            world.naive.get_mut(&row).unwrap().truncate(len);
        }
        world.make(&feed(5));
    }
}

/// Blocks are shared by count: four branches of one beginning take what one row and four open blocks do.
#[test]
fn branches_share_what_is_sealed() {
    let mut world = world(&[Reach::All], 4);
    world.make(&Move::Join { stem: 0, len: 33 });
    world.make(&feed(0));
    let row = world.pick(0).unwrap();
    let group = omlx_blocks::GroupId(0);
    let free = world.rows.ledger().free_blocks(group);
    for _ in 0..4 {
        let branch = world.rows.fork(row);
        assert_eq!((world.rows.pending(branch), world.rows.tokens(branch).len()), (1, 33));
        world.naive.insert(branch, world.naive[&row].clone());
    }
    assert_eq!(world.rows.ledger().free_blocks(group), free);
    world.make(&feed(1));
    assert_eq!(world.rows.ledger().free_blocks(group), free - 4);
    // The source leaves first; the branches keep what they share.
    world.make(&Move::Leave { which: 0 });
    world.make(&feed(6));
}

#[test]
fn too_many_rows_are_refused_and_nobody_has_changed() {
    let mut rows = World::new(vec![(Reach::All, Codec::Plain(DType::F32))], 4, 1).rows;
    let [a, b] = [[1; 30], [2; 30]].map(|tokens| rows.join(&tokens).unwrap());
    let feeds = [a, b].map(|row| Feed { row, tokens: &[7, 7], logits: 1 });
    assert!(matches!(rows.step(&feeds), Err(Error::Full { tokens: 32 })));
    assert_eq!((rows.tokens(a).len(), rows.pending(a), rows.pending(b)), (30, 30, 30));
    rows.ledger().check();
    assert_eq!(rows.step(&feeds[1..]).unwrap().positions.len(), 32);
    assert!(matches!(
        rows.step(&[Feed { row: b, tokens: &[7; 9], logits: 1 }]),
        Err(Error::Context { tokens: 41, .. })
    ));
    assert!(matches!(rows.join(&[0; 41]), Err(Error::Context { tokens: 41, context: 40 })));
}
