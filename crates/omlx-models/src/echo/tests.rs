//! What echo answers through a real ledger and cache is what the tokens alone say; and the faults it exists to catch show:
//! two slots swapped, a write that went elsewhere, a table that names another block, a position off by one.

use candle_core::{Device, Tensor};
use omlx_blocks::{GroupId, GroupSize, Ledger, Salt, SeqId};
use omlx_kv::{Batch, BatchRow, KvCache};
use omlx_ops::Reach;

use super::EchoModel;
use crate::Model;

const BLOCK: usize = 4;
const BLOCKS: usize = 128;
/// So many that two different states hardly ever name the same token.
const VOCAB: usize = 1 << 20;

/// Several sequences on one ledger and cache.
struct Stage {
    model: EchoModel,
    kv: KvCache,
    ledger: Ledger,
    seqs: Vec<Vec<u32>>,
}

impl Stage {
    fn new(reaches: &[Reach]) -> Self {
        let model = EchoModel::new(reaches, VOCAB, 4096);
        let sizes: Vec<GroupSize> =
            model.layout().groups.iter().map(|g| GroupSize { reach: g.reach, blocks: BLOCKS }).collect();
        let kv = KvCache::new(model.layout().clone(), &sizes, BLOCK, &Device::Cpu).unwrap();
        let ledger = Ledger::new(BLOCK, &sizes, Salt::of(&[("test", b"echo")]));
        Self { model, kv, ledger, seqs: Vec::new() }
    }

    fn open(&mut self) -> usize {
        self.ledger.open(SeqId(self.seqs.len() as u64), &[], 0);
        self.seqs.push(Vec::new());
        self.seqs.len() - 1
    }

    fn close(&mut self, seq: usize) {
        self.ledger.close(SeqId(seq as u64));
    }

    /// Feeds rows of (sequence, tokens) in one step; the batch may be spoilt on its way. The answers, one per row.
    fn step(&mut self, rows: &[(usize, &[u32])], spoil: impl FnOnce(&mut Batch)) -> Vec<u32> {
        let starts: Vec<usize> = rows.iter().map(|(seq, _)| self.seqs[*seq].len()).collect();
        for (seq, tokens) in rows {
            self.seqs[*seq].extend(*tokens);
            self.ledger.grow(SeqId(*seq as u64), self.seqs[*seq].len()).expect("room");
        }
        let groups = self.model.layout().groups.len();
        let table = |seq: usize, g: usize| self.ledger.table(SeqId(seq as u64), GroupId(g as u32));
        let batch_rows: Vec<BatchRow<'_>> = rows
            .iter()
            .zip(&starts)
            .map(|((seq, tokens), start)| BatchRow {
                tokens,
                start: *start,
                logits: 1,
                tables: (0..groups).map(|g| table(*seq, g)).collect(),
            })
            .collect();
        let mut batch = Batch::new(&batch_rows, groups, BLOCK);
        spoil(&mut batch);
        let logits = self.model.forward(&batch, &self.kv).unwrap();
        for (seq, _) in rows {
            let tokens = &self.seqs[*seq];
            self.ledger.seal(SeqId(*seq as u64), tokens, tokens.len());
        }
        best(&logits)
    }
}

fn best(logits: &Tensor) -> Vec<u32> {
    logits.argmax(1).unwrap().to_vec1().unwrap()
}

fn tokens(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| (seed * 7919 + i * 104_729) % VOCAB as u32).collect()
}

const MIXES: [&[Reach]; 6] = [
    &[Reach::All],
    &[Reach::Last(5), Reach::All],
    &[Reach::All, Reach::Last(1), Reach::Last(3), Reach::All],
    &[Reach::Last(4), Reach::Last(4), Reach::Last(9)],
    &[Reach::Keep { first: 3, last: 4 }, Reach::All],
    &[Reach::Keep { first: 6, last: 2 }, Reach::Keep { first: 1, last: 9 }],
];

#[test]
fn answers_follow_from_the_tokens() {
    for reaches in MIXES {
        for chunks in [&[64][..], &[1], &[1, 3, 7], &[5, 2]] {
            let mut stage = Stage::new(reaches);
            let seq = stage.open();
            let prompt = tokens(1, 33);
            let (mut fed, mut chunks) = (0, chunks.iter().cycle());
            while fed < prompt.len() {
                let end = (fed + chunks.next().unwrap()).min(prompt.len());
                let answer = stage.step(&[(seq, &prompt[fed..end])], |_| ());
                assert_eq!(answer, [stage.model.answer(&prompt[..end])], "{reaches:?}, {end} tokens");
                fed = end;
            }
        }
    }
}

/// Sequences join, grow by odd lengths, leave, and their blocks go to others.
#[test]
fn a_crowd_that_comes_and_goes() {
    for reaches in MIXES {
        let mut stage = Stage::new(reaches);
        let mut alive: Vec<usize> = Vec::new();
        for round in 0..40usize {
            if alive.len() < 4 {
                alive.push(stage.open());
            }
            if round % 7 == 6 {
                stage.close(alive.remove(round % alive.len()));
            }
            let new: Vec<(usize, Vec<u32>)> =
                alive.iter().map(|seq| (*seq, tokens((round * 31 + seq) as u32, 1 + (round + seq) % 6))).collect();
            let rows: Vec<(usize, &[u32])> = new.iter().map(|(seq, tokens)| (*seq, tokens.as_slice())).collect();
            let answers = stage.step(&rows, |_| ());
            for (seq, answer) in alive.iter().zip(answers) {
                assert_eq!(answer, stage.model.answer(&stage.seqs[*seq]), "{reaches:?}, round {round}, row {seq}");
            }
        }
    }
}

/// A fault in the middle of the prompt changes the answer to a later, faultless step.
#[track_caller]
fn shows(reaches: &[Reach], spoil: impl FnOnce(&mut Batch)) {
    let mut stage = Stage::new(reaches);
    let (one, two) = (stage.open(), stage.open());
    let (a, b) = (tokens(1, 10), tokens(2, 10));
    stage.step(&[(one, &a), (two, &b)], |_| ());
    stage.step(&[(one, &a[..3]), (two, &b[..3])], spoil);
    let answers = stage.step(&[(one, &[7]), (two, &[9])], |_| ());
    let right = [one, two].map(|seq| stage.model.answer(&stage.seqs[seq]));
    assert_ne!(answers, right);
}

#[test]
fn faults_show() {
    for reaches in MIXES {
        for group in 0..Stage::new(reaches).model.layout().groups.len() {
            shows(reaches, |b| b.views[group].slots.swap(1, 2));
            shows(reaches, |b| b.views[group].slots.swap(2, 5));
            shows(reaches, |b| b.views[group].slots[2] = ((BLOCKS - 1) * BLOCK) as u32);
        }
        shows(reaches, |b| b.positions[2] += 1);
        shows(reaches, |b| b.tokens[2] += 1);
    }
}

/// A table that names another sequence's block, and a window that is one too wide or too narrow.
#[test]
fn faults_of_reading_show_at_once() {
    for reaches in MIXES {
        let mut stage = Stage::new(reaches);
        let (one, two) = (stage.open(), stage.open());
        stage.step(&[(one, &tokens(1, 10)), (two, &tokens(2, 10))], |_| ());
        let answers = stage.step(&[(one, &[7]), (two, &[9])], |b| {
            let view = &mut b.views[0];
            let last = (10 / BLOCK) - view.forgotten[0] as usize;
            let (x, y) = (last, view.width + last);
            view.tables.swap(x, y);
        });
        assert_ne!(answers[0], stage.model.answer(&stage.seqs[one]), "{reaches:?}");
    }
    let prompt = tokens(1, 20);
    let of = |w| EchoModel::new(&[Reach::Last(w)], VOCAB, 4096).answer(&prompt);
    assert!(of(5) != of(4) && of(5) != of(6));
}
