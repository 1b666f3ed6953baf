//! LIFE-3: every kind of request in one batch, over and over, on a small cache; each answers as it would alone.

use futures_util::future::join_all;
use omlx_api::{Generate, Sampling, TokenMask};
use omlx_engine::Config;

use crate::answer::{Dice, ask, block_on, engine, settled, tiny};

/// A grammar that knows even and odd: the next id has another parity than the last.
struct Alternate;
impl TokenMask for Alternate {
    fn allow(&mut self, accepted: &[u32], allowed: &mut [bool]) {
        let parity = accepted.last().map_or(0, |last| (last + 1) % 2);
        // Only clears, as a mask may: the buffer has to come with every entry set.
        for (_, on) in allowed.iter_mut().enumerate().filter(|(id, _)| *id as u32 % 2 != parity) {
            *on = false;
        }
    }
}

/// One of eight ways to draw.
pub(crate) fn sampling(kind: usize, seed: u64) -> Sampling {
    let hot = Sampling { temperature: 1.0, seed, ..Sampling::default() };
    match kind {
        0 => Sampling::default(),
        1 => Sampling { repetition_penalty: 1.3, ..hot },
        2 => Sampling { logit_bias: vec![(65, 4.0), (66, -100.0), (67, f32::NEG_INFINITY)], ..hot },
        3 => Sampling { top_k: 0, ..hot },
        4 => Sampling { min_p: 1.0, ..hot },
        5 => Sampling { presence_penalty: 0.8, frequency_penalty: 0.3, top_p: 0.8, ..hot },
        6 => Sampling { top_k: 20, top_p: 0.9, min_p: 0.02, temperature: 1.6, ..hot },
        _ => Sampling { temperature: 0.0, repetition_penalty: 0.9, ..hot },
    }
}

/// One of the eight kinds, from one of a few prompts.
fn request(kind: usize, dice: &mut Dice) -> Generate {
    let (stem, len) = (dice.roll(5) as u64, 5 + dice.roll(60));
    let mut request = Generate::new(Dice(stem).tokens(len, 256), 3 + dice.roll(14));
    request.sampling = sampling(kind, dice.roll(1_000) as u64);
    if kind % 2 == 1 {
        request.logprobs = Some(kind);
    }
    if kind == 3 {
        request.mask = Some(Box::new(Alternate));
    }
    request
}

/// Caught: the draw's position taken from the chunk; rows drawn in reverse order; a mask's buffer not reset.
#[test]
fn eight_kinds_at_once_over_and_over() {
    // 24 blocks of 8: two prompts' worth of prefixes, and parking now and then.
    let model = tiny("gemma3_sw8");
    let layout = omlx_models::Model::layout(&model);
    let bytes: u64 = (0..layout.groups.len()).map(|g| layout.block_bytes(g, 8)).sum();
    let config = Config { block: 8, step_tokens: 64, chunk_tokens: 24, rows: 8, ..Config::new(bytes * 24) };
    let crowd = engine(model, config);
    let lone = engine(tiny("gemma3_sw8"), Config { block: 8, ..Config::new(16 << 20) });
    block_on(async {
        let mut found = 0;
        for round in 0..200_u64 {
            let one = |kind: usize| request(kind, &mut Dice(round * 8 + kind as u64));
            let answers = join_all((0..8).map(|kind| ask(&crowd, one(kind)))).await;
            for (kind, got) in answers.into_iter().enumerate() {
                found += got.usage().cached;
                let want = ask(&lone, one(kind)).await;
                assert_eq!(got.bits(), want.bits(), "round {round}, kind {kind}");
            }
        }
        assert!(found > 0, "prefixes were found");
        settled(&crowd).await;
    });
}
