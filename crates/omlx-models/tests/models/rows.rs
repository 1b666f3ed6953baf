//! Rows that branch, are cut back and meet after their windows: each as in a lone cold run, to the bit.
//!
//! With real tiny models (windows of 8 in four of them; one with packed experts) and with the echo. Faults seen to be caught: a fork that counts its open block
//! as computed; a cut that leaves `computed` where it was; the first row's table staged for all. All of it with keys and values as
//! numbers, as codes in every layer, and as codes between plain ends: TQ-1, a prefix hit reads what a fresh run reads.

use candle_core::{DType, Device};
use omlx_fixtures::{golden, tiny};
#[cfg(feature = "testing")]
use omlx_kv::Reach;
use omlx_kv::{Error, Feed, KvStore, Rows, SeqId};
#[cfg(feature = "testing")]
use omlx_models::EchoModel;
use omlx_models::{LoadOptions, Model, load};

use crate::run::argmax;

const BLOCK: usize = 4;
const MODELS: [&str; 7] = ["llama", "mistral_sw8", "qwen2", "gemma3_text", "gemma3_sw8", "step3p5", "gpt_oss"];

struct Crowd<'a> {
    model: &'a dyn Model,
    rows: Rows,
}

impl<'a> Crowd<'a> {
    fn new(model: &'a dyn Model) -> Self {
        Crowd { model, rows: Rows::new(model.layout().clone(), 6, 160, BLOCK, &Device::Cpu).unwrap() }
    }

    /// Logits of the last token of each row.
    fn step(&mut self, feeds: &[(SeqId, &[u32])]) -> Vec<Vec<f32>> {
        let feeds: Vec<Feed<'_>> = feeds.iter().map(|&(row, tokens)| Feed { row, tokens, logits: 1 }).collect();
        let batch = self.rows.step(&feeds).unwrap();
        let logits = self.model.forward(&batch, self.rows.cache()).unwrap().to_vec2().unwrap();
        self.rows.ledger().check();
        logits
    }

    /// The row's present end, computed cold and alone in one step, has these logits.
    #[track_caller]
    fn check(&self, row: SeqId, logits: &[f32], what: &str) {
        let mut alone = Crowd::new(self.model);
        let cold = alone.rows.join(self.rows.tokens(row)).unwrap();
        let cold = alone.step(&[(cold, &[])]).remove(0);
        assert!(cold == logits, "{what}: {:?} and not {:?}", argmax(logits), argmax(&cold));
    }

    /// Greedy steps of all these rows at once, each checked.
    #[track_caller]
    fn decode(&mut self, rows: &[SeqId], mut logits: Vec<Vec<f32>>, steps: usize, what: &str) {
        for _ in 0..steps {
            let next: Vec<[u32; 1]> = logits.iter().map(|l| [argmax(l)]).collect();
            let feeds: Vec<(SeqId, &[u32])> = rows.iter().copied().zip(next.iter().map(|n| &n[..])).collect();
            logits = self.step(&feeds);
            for (row, logits) in rows.iter().zip(&logits) {
                self.check(*row, logits, what);
            }
        }
    }
}

/// How keys and values are stored: plain, all coded with windows too, and a mixture.
fn stores() -> [KvStore; 3] {
    let coded = |bits: &str, ends, windows| KvStore { bits: bits.parse().unwrap(), ends, windows, seed: 3 };
    [KvStore::default(), coded("4", Some(0), true), coded("3.5", Some(1), false)]
}

/// Runs a scenario on every tiny model and on an echo with windows, kept starts and none.
fn on_all(scenario: fn(&dyn Model, &[u32], &str)) {
    for name in MODELS {
        for store in stores() {
            let mut model = load(&tiny(name), &Device::Cpu, &LoadOptions { kv: DType::F32 }).unwrap().model;
            model.store(&store);
            scenario(&model, &golden(name).prompt_ids, &format!("{name}, {} bits", store.bits));
        }
    }
    #[cfg(feature = "testing")]
    {
        let reaches = [Reach::All, Reach::Last(5), Reach::Keep { first: 3, last: 6 }, Reach::Last(8)];
        let prompt: Vec<u32> = (0..48).map(|i| (i * i + 7) % 256).collect();
        scenario(&EchoModel::new(&reaches, 256, 4096), &prompt, "echo");
    }
}

/// BAT-1: one row has crossed its windows many times, the other not at all, and they go on in one batch.
#[test]
fn bat_1_rows_meet_after_a_window_was_crossed() {
    on_all(|model, prompt, name| {
        let mut crowd = Crowd::new(model);
        let long = crowd.rows.join(prompt).unwrap();
        let mut first = crowd.step(&[(long, &[])]);
        crowd.check(long, &first[0], name);
        let short = crowd.rows.join(&prompt[3..8]).unwrap();
        first.extend(crowd.step(&[(short, &[])]));
        crowd.decode(&[long, short], first, 12, name);
    });
}

/// BAT-2: neighbours of 1, 7, 8, 9 and 48 tokens, joined in one step.
#[test]
fn bat_2_neighbours_of_any_length() {
    on_all(|model, prompt, name| {
        let mut crowd = Crowd::new(model);
        let rows: Vec<SeqId> = [1, 7, 8, 9, prompt.len()].map(|len| crowd.rows.join(&prompt[..len]).unwrap()).into();
        let feeds: Vec<(SeqId, &[u32])> = rows.iter().map(|row| (*row, &[][..])).collect();
        let logits = crowd.step(&feeds);
        rows.iter().zip(&logits).for_each(|(row, logits)| crowd.check(*row, logits, name));
        crowd.decode(&rows, logits, 10, name);
    });
}

/// BAT-4: chunks shorter than, as long as and longer than the window, beside a row that decodes.
#[test]
fn bat_4_chunks_longer_than_the_window() {
    on_all(|model, prompt, name| {
        for chunk in [5, 8, 9, 23] {
            let mut crowd = Crowd::new(model);
            let [other, row] = [prompt[..11].to_vec(), Vec::new()].map(|p| crowd.rows.join(&p).unwrap());
            let mut last = crowd.step(&[(other, &[])]).remove(0);
            for part in prompt.chunks(chunk) {
                let logits = crowd.step(&[(row, part), (other, &[argmax(&last)])]);
                crowd.check(row, &logits[0], name);
                crowd.check(other, &logits[1], name);
                last = logits[1].clone();
            }
        }
    });
}

/// Branches at and beside a block's edge, before and after a window; the source goes on, leaves, and the branches with it not.
#[test]
fn branches_go_their_own_ways() {
    on_all(|model, prompt, name| {
        for len in [3, 8, 21, 24, 48] {
            let mut crowd = Crowd::new(model);
            let row = crowd.rows.join(&prompt[..len]).unwrap();
            crowd.step(&[(row, &[])]);
            let early = crowd.rows.fork(row);
            crowd.step(&[(row, &[42])]);
            let late = crowd.rows.fork(row);
            let logits = crowd.step(&[(early, &[7, 9]), (row, &[11]), (late, &[13])]);
            [early, row, late].iter().zip(&logits).for_each(|(row, logits)| crowd.check(*row, logits, name));
            crowd.rows.leave(row);
            crowd.decode(&[early, late], vec![logits[0].clone(), logits[2].clone()], 6, name);
        }
    });
}

/// PFX-2: cut back to every length, exactly or not at all, and go on another way.
#[test]
fn pfx_2_cuts_are_exact_or_refused() {
    on_all(|model, prompt, name| {
        let windowed = model.layout().groups.iter().any(|g| g.reach.first_visible(prompt.len()) > BLOCK);
        let mut refused = 0;
        for len in 0..prompt.len() {
            let mut crowd = Crowd::new(model);
            let row = crowd.rows.join(&prompt[..prompt.len() - 4]).unwrap();
            crowd.step(&[(row, &[])]);
            crowd.step(&[(row, &prompt[prompt.len() - 4..])]);
            match crowd.rows.truncate(row, len) {
                Ok(()) => assert_eq!(crowd.rows.tokens(row), &prompt[..len]),
                Err(Error::Forgotten { .. }) => {
                    assert!(windowed && crowd.rows.tokens(row) == prompt, "{name}, {len}");
                    refused += 1;
                }
                Err(other) => panic!("{name}, {len}: {other}"),
            }
            let logits = crowd.step(&[(row, &[99, 3])]);
            crowd.check(row, &logits[0], name);
        }
        assert_eq!(refused > 0, windowed, "{name}: {refused} refused");
    });
}

/// A branch may not be cut inside a block that its source still holds; at the edge it may.
#[test]
fn shared_blocks_are_not_written_again() {
    on_all(|model, prompt, name| {
        let mut crowd = Crowd::new(model);
        let row = crowd.rows.join(&prompt[..10]).unwrap();
        crowd.step(&[(row, &[])]);
        let branch = crowd.rows.fork(row);
        assert!(matches!(crowd.rows.truncate(branch, 6), Err(Error::Shared { len: 6, block: BLOCK })), "{name}");
        crowd.rows.truncate(branch, 8).unwrap();
        let logits = crowd.step(&[(branch, &[5, 6, 7]), (row, &[8])]);
        crowd.check(branch, &logits[0], name);
        crowd.check(row, &logits[1], name);
    });
}
