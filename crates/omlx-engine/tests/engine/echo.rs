//! Echo: random arrivals, cancels, prefix hits and tiny pools; every id equals what the tokens alone say.
//!
//! The model's answer is a checksum over what it reads back through the block tables, so a wrong slot, a stale block,
//! a lost token or a window off by one shows as another id. Faults seen to be caught: a row's position one too low; its
//! tokens taken one too early; tables of group 0 for every group; rows drawn in reverse order; cached tokens not told.

use futures_util::StreamExt;
use futures_util::future::join_all;
use omlx_api::{EngineHandle, Event, Fault, Finish, Generate, Refusal, Sampling};
use omlx_engine::Config;
use omlx_models::{EchoModel, Model};
use omlx_ops::Reach;

use crate::answer::{Dice, ask, block_on, engine, finish, settled};

/// What a lone cold run says: ids and the reason it ends. `context` is prompt and answer together.
fn lone(model: &EchoModel, request: &Generate, context: usize) -> (Vec<u32>, Finish) {
    let mut tokens = request.tokens.clone();
    loop {
        let id = model.answer(&tokens);
        if request.stop.contains(&id) {
            return (tokens.split_off(request.tokens.len()), Finish::Stop);
        }
        tokens.push(id);
        if tokens.len() - request.tokens.len() == request.limit || tokens.len() == context {
            return (tokens.split_off(request.tokens.len()), Finish::Length);
        }
    }
}

/// A pool that holds about `tokens` tokens.
fn pool(model: &EchoModel, config: Config, tokens: usize) -> Config {
    let layout = model.layout();
    let groups = layout.groups.len();
    let bytes: u64 = (0..groups).map(|g| layout.block_bytes(g, config.block)).sum();
    Config { kv_bytes: bytes * tokens.div_ceil(config.block) as u64, ..config }
}

struct World {
    model: EchoModel,
    context: usize,
    stems: Vec<Vec<u32>>,
}

impl World {
    fn request(&self, dice: &mut Dice) -> Generate {
        let vocab = self.model.vocab();
        let stem = dice.pick(&self.stems);
        let mut tokens = stem[..1 + dice.roll(stem.len())].to_vec();
        let more = dice.roll(6);
        tokens.extend(dice.tokens(more, vocab));
        let mut request = Generate::new(tokens, 1 + dice.roll(12));
        if dice.roll(3) == 0 {
            request.stop = dice.tokens(2, vocab);
        }
        if dice.roll(4) == 0 {
            // The echo is far ahead of all others: sampling must pick it too.
            request.sampling = Sampling { temperature: 0.7, seed: 3, ..Sampling::default() };
        }
        request
    }

    /// One client: comes late, perhaps leaves early, and checks what it was told.
    async fn client(&self, engine: &EngineHandle, mut dice: Dice) {
        let request = self.request(&mut dice);
        let (want, why) = lone(&self.model, &request, self.context);
        for _ in 0..dice.roll(60) {
            tokio::task::yield_now().await;
        }
        let prompt = request.tokens.len();
        let stop = request.stop.clone();
        let mut ticket = engine.generate(request).await.unwrap();
        if dice.roll(4) == 0 {
            let patience = dice.roll(5);
            let mut seen = Vec::new();
            while seen.len() < patience
                && let Some(Event::Token { id, .. }) = ticket.next().await
            {
                seen.push(id);
            }
            assert!(want.starts_with(&seen), "{seen:?} instead of {want:?}");
            return;
        }
        let got = finish(ticket).await;
        assert_eq!(got.ids, want, "prompt of {prompt}, stop {stop:?}");
        let Event::Done { why: ended, usage } = got.end else { panic!("{:?}", got.end) };
        assert_eq!((ended, usage.prompt), (why, prompt));
        assert_eq!(usage.completion, want.len() + usize::from(why == Finish::Stop));
        assert!(usage.cached < prompt, "one token at least is left to compute");
    }
}

/// One world: one engine, forty clients.
fn run(seed: u64) {
    let mut dice = Dice(seed);
    let windows: [&[Reach]; 5] = [
        &[Reach::All],
        &[Reach::All, Reach::All],
        &[Reach::Last(3), Reach::All],
        &[Reach::Last(1), Reach::Last(8), Reach::All, Reach::Last(8)],
        &[Reach::Last(5)],
    ];
    let vocab = *dice.pick(&[2, 17, 300]);
    let model = EchoModel::new(windows[dice.roll(windows.len())], vocab, 64);
    let config = Config {
        block: *dice.pick(&[1, 2, 3, 4, 8]),
        step_tokens: 1 + dice.roll(24),
        chunk_tokens: 1 + dice.roll(24),
        step_time: None, // the same chunks on every machine
        head_start: dice.roll(20),
        rows: 1 + dice.roll(8),
        waiting: 64,
        kv_bytes: 0,
        context: None,
    };
    let room = 48 + dice.roll(80);
    let config = pool(&model, config, room);
    let fit = config.fit(&model).unwrap();
    let context = fit.context.min(fit.capacity);
    assert!(context >= 40, "seed {seed}: {context}");
    let stems = (0..3).map(|_| dice.tokens(24, vocab)).collect();
    let engine = engine(model.clone(), config);
    let world = World { model, context, stems };
    block_on(async {
        let clients = (0..40).map(|n| world.client(&engine, Dice(seed * 1_000 + n)));
        join_all(clients).await;
        let end = settled(&engine).await;
        assert!(end.steps > 0 && end.prompt_tokens > 0);
    });
}

#[test]
fn random_arrivals_with_tiny_pools() {
    for seed in 0..40 {
        // The panic that a client's assertion raises names the world.
        let run = std::panic::catch_unwind(|| run(seed));
        assert!(run.is_ok(), "world {seed}");
    }
}

#[test]
fn the_same_prompt_again_is_found_and_answers_alike() {
    for (reaches, block) in [(vec![Reach::All], 4), (vec![Reach::Last(6), Reach::All], 4), (vec![Reach::Last(3)], 2)] {
        let model = EchoModel::new(&reaches, 200, 128);
        let config = pool(&model, Config { block, ..Config::new(1) }, 512);
        let engine = engine(model.clone(), config);
        block_on(async {
            for len in [1, 3, 4, 5, 8, 9, 33, 64] {
                let prompt = Dice(len as u64).tokens(len, 200);
                let want = lone(&model, &Generate::new(prompt.clone(), 9), 128).0;
                let cold = ask(&engine, Generate::new(prompt.clone(), 9)).await;
                let warm = ask(&engine, Generate::new(prompt.clone(), 9)).await;
                assert_eq!((&cold.ids, &warm.ids), (&want, &want));
                assert_eq!(cold.usage().cached, 0);
                assert_eq!(warm.usage().cached, (len - 1) / block * block, "{reaches:?}, prompt of {len}");
                // A conversation goes on: the answer's blocks are found too.
                let mut next = prompt;
                next.extend(&want);
                next.extend([7, 7]);
                let on = ask(&engine, Generate::new(next.clone(), 3)).await;
                assert_eq!(on.ids, lone(&model, &Generate::new(next, 3), 128).0);
                assert!(on.usage().cached >= (len + 8) / block * block, "{:?}", on.usage());
            }
        });
    }
}

/// Caught: the prompt counted as answer; the whole sequence passed as generated.
#[test]
fn penalties_see_the_answer_and_not_the_prompt() {
    let model = EchoModel::new(&[Reach::All], 12, 64);
    let config = pool(&model, Config { block: 4, ..Config::new(1) }, 64);
    let engine = engine(model.clone(), config);
    let sampling = Sampling {
        presence_penalty: 200.0, // more than the echo's 100
        ..Sampling::default()
    };
    block_on(async {
        for seed in 0..20 {
            let prompt = Dice(seed).tokens(5, 12);
            let mut tokens = prompt.clone();
            for _ in 0..9 {
                let mut row = [0.0; 12];
                row[model.answer(&tokens) as usize] = 100.0;
                for id in &tokens[5..] {
                    row[*id as usize] -= 200.0;
                }
                let best = row.iter().copied().fold(f32::MIN, f32::max);
                tokens.push(row.iter().position(|x| *x == best).unwrap() as u32);
            }
            let request = Generate { sampling: sampling.clone(), ..Generate::new(prompt, 9) };
            assert_eq!(ask(&engine, request).await.ids, tokens[5..]);
        }
    });
}

#[test]
fn limits_are_answers() {
    let model = EchoModel::new(&[Reach::All], 50, 64);
    let config = pool(&model, Config { block: 4, ..Config::new(1) }, 40);
    let fit = config.fit(&model).unwrap();
    assert_eq!((fit.context, fit.capacity), (64, 40));
    let engine = engine(model.clone(), config);
    block_on(async {
        let refused = |end: &Event| match end {
            Event::Failed(Fault::Refused(refusal)) => *refusal,
            other => panic!("not refused: {other:?}"),
        };
        let got = ask(&engine, Generate::new(vec![1; 60], 1)).await;
        assert_eq!(refused(&got.end), Refusal::NeverFits { tokens: 60, most: 40 }, "memory, not the context");
        let got = ask(&engine, Generate::new(vec![1; 64], 1)).await;
        assert_eq!(refused(&got.end), Refusal::TooLong { tokens: 64, context: 64 });
        let got = ask(&engine, Generate::new(vec![], 1)).await;
        assert_eq!(refused(&got.end), Refusal::Empty);
        let got = ask(&engine, Generate::new(vec![1, 50], 1)).await;
        assert_eq!(refused(&got.end), Refusal::UnknownToken { id: 50, vocab: 50 });
        // LIFE-5: a large limit is no reason to refuse a small prompt; the answer ends with the memory, and its last token
        // needs none.
        let got = ask(&engine, Generate::new(vec![3; 10], usize::MAX)).await;
        assert_eq!(got.ids.len(), 31);
        assert!(matches!(got.end, Event::Done { why: Finish::Length, .. }));
        let end = settled(&engine).await;
        assert_eq!((end.prompt_tokens, end.generated_tokens, end.steps), (10, 31, 31));
    });
}
