//! Beginnings and ends: cancels, stops, deaths, and who is told what.
//!
//! Fault seen to be caught: `sweep` left out (cancelled rows decode on). What happens when a step fails is in `fail.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use omlx_api::{Event, Fault, Generate, TokenMask};
use omlx_engine::{Config, Error, Turnstile};
use omlx_models::EchoModel;

use crate::answer::{ask, block_on, engine, engine_at, finish, settled};
use crate::planted::{Fault as Plant, Planted, Watch, config, echo};

fn planted(fault: Plant) -> (Planted<EchoModel>, Arc<Watch>) {
    echo(fault, |_| true, Watch::default())
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(5), "{what}: never");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_client_that_goes_away_takes_its_work_along() {
    let (model, watch) = planted(Plant::Nothing);
    let engine = engine(model, config());
    block_on(async {
        for round in 0..50 {
            // (a) four run for long, the fifth waits; it leaves from the queue. A step is let through per look.
            let long = || Generate::new(vec![round; 20], 3_000);
            let mut running = Vec::new();
            for _ in 0..4 {
                running.push(engine.generate(long()).await.unwrap());
            }
            let step_until = |what, running, waiting| {
                let (engine, watch) = (&engine, &watch);
                until(what, move || {
                    watch.allow(1);
                    let now = engine.snapshot();
                    (now.running, now.waiting) == (running, waiting)
                })
            };
            step_until("four run", 4, 0).await;
            let queued = engine.generate(long()).await.unwrap();
            step_until("one waits", 4, 1).await;
            drop(queued);
            step_until("the queue is empty", 4, 0).await;
            // (b) in decode: at most 50 of the 3,000 tokens.
            watch.allow(50);
            for ticket in &mut running {
                assert!(matches!(ticket.next().await, Some(Event::Token { .. })));
            }
            drop(running);
            watch.allow(usize::MAX);
            settled(&engine).await;
            // (c) in prefill: 2,000 tokens are 63 chunks, two of them are read.
            let before = engine.snapshot().prompt_tokens;
            watch.allow(2);
            let prompt = vec![round + 50; 2_000];
            let prefill = engine.generate(Generate::new(prompt, 5)).await.unwrap();
            until("two chunks are read", || watch.used_up()).await;
            drop(prefill);
            watch.allow(usize::MAX);
            let read = settled(&engine).await.prompt_tokens - before;
            assert!(read <= 3 * 32, "{read} tokens of the prompt were read");
        }
        let got = ask(&engine, Generate::new(vec![5; 9], 4)).await;
        assert_eq!(got.ids.len(), 4);
    });
}

#[test]
fn a_row_of_nan_fails_one_request_and_nobody_else() {
    let (model, watch) = planted(Plant::NanAfter(77));
    let echo = model.inner.clone();
    let engine = engine(model, config());
    block_on(async {
        for round in 0..5 {
            let prompts = [vec![1, 2, 3], vec![4, 5, 77], vec![6, 7, 8]].map(|mut p| {
                p.insert(0, round);
                p
            });
            let answers = join_all(prompts.iter().map(|p| ask(&engine, Generate::new(p.clone(), 3)))).await;
            for (prompt, got) in prompts.iter().zip(answers) {
                let mut tokens = prompt.clone();
                let mut want = Vec::new();
                while want.len() < 3 && tokens.last() != Some(&77) {
                    tokens.push(echo.answer(&tokens));
                    want.push(tokens[tokens.len() - 1]);
                }
                assert_eq!(got.ids, want);
                let unsound = matches!(&got.end, Event::Failed(Fault::Unsound { reason }) if reason.contains("NaN"));
                assert_eq!(unsound, tokens.last() == Some(&77) && want.len() < 3, "{:?}", got.end);
            }
        }
        settled(&engine).await;
        assert!(engine.is_alive() && !watch.freed.load(Ordering::SeqCst));
    });
}

struct Nothing;
impl TokenMask for Nothing {
    fn allow(&mut self, _accepted: &[u32], allowed: &mut [bool]) {
        allowed.fill(false);
    }
}

#[test]
fn a_mask_that_allows_nothing_fails_its_own_request() {
    let (model, _) = planted(Plant::Nothing);
    let engine = engine(model, config());
    block_on(async {
        let masked = Generate { mask: Some(Box::new(Nothing)), ..Generate::new(vec![1, 2], 3) };
        let (masked, plain) = tokio::join!(ask(&engine, masked), ask(&engine, Generate::new(vec![1, 2], 3)));
        assert!(matches!(masked.end, Event::Failed(Fault::Unsound { .. })), "{:?}", masked.end);
        assert_eq!(plain.ids.len(), 3);
    });
}

#[test]
fn stop_fails_everyone_at_once_and_frees_the_model() {
    let (model, watch) = planted(Plant::Nothing);
    let engine = engine(model, config());
    block_on(async {
        let mut tickets = Vec::new();
        watch.allow(0);
        for n in 0..6 {
            let long = Generate::new(vec![n; 10], 3_000);
            tickets.push(engine.generate(long).await.unwrap());
        }
        until("four run", || {
            watch.allow(1);
            engine.snapshot().running == 4
        })
        .await;
        engine.stop();
        watch.allow(usize::MAX);
        for ticket in tickets {
            assert_eq!(finish(ticket).await.end, Event::Failed(Fault::Stopped));
        }
        until("the model is freed", || watch.freed.load(Ordering::SeqCst)).await;
        assert!(!engine.is_alive());
    });
}

#[test]
fn an_idle_engine_ends_with_stop_and_with_its_last_handle() {
    for by_drop in [false, true] {
        let (model, watch) = planted(Plant::Nothing);
        let engine = engine(model, config());
        let other = engine.clone();
        block_on(async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if by_drop {
                drop(engine)
            } else {
                engine.stop()
            }
            assert!(!by_drop || !watch.freed.load(Ordering::SeqCst));
            drop(other);
            until("the model is freed", || watch.freed.load(Ordering::SeqCst)).await;
        });
    }
}

#[test]
fn without_handles_what_was_asked_is_still_answered() {
    let (model, watch) = planted(Plant::Nothing);
    let engine = engine(model, config());
    block_on(async {
        let ticket = engine.generate(Generate::new(vec![1; 30], 40)).await.unwrap();
        drop(engine);
        assert_eq!(finish(ticket).await.ids.len(), 40);
        until("the model is freed", || watch.freed.load(Ordering::SeqCst)).await;
    });
}

/// A long prompt on one, token by token, and a short answer on the other, which does not wait for the long one's end.
#[test]
fn two_engines_share_a_device_by_the_step() {
    let turnstile = Arc::new(Turnstile::default());
    let [(a, watch_a), (b, watch_b)] = [planted(Plant::Nothing), planted(Plant::Nothing)];
    let echo = a.inner.clone();
    let slow = Config { step_tokens: 1, ..config() };
    let a = engine_at(a, slow, &turnstile);
    let b = engine_at(b, config(), &turnstile);
    block_on(async {
        let turn = turnstile.enter();
        let long = a.generate(Generate::new(vec![1; 2_000], 1)).await.unwrap();
        let short = b.generate(Generate::new(vec![2; 5], 8)).await.unwrap();
        drop(turn);
        let short = finish(short).await;
        let steps = watch_a.steps.load(Ordering::SeqCst);
        assert!(steps < 2_000, "the short one waited");
        assert_eq!(short.ids.len(), 8);
        assert_eq!(short.ids[0], echo.answer(&[2; 5]));
        assert_eq!(finish(long).await.ids, [echo.answer(&[1; 2_000])]);
        assert_eq!(watch_b.steps.load(Ordering::SeqCst), 8);
    });
}

#[test]
fn limits_that_cannot_work_are_errors_with_the_way_out() {
    let (model, _) = planted(Plant::Nothing);
    for (broken, name) in [
        (Config { rows: 0, ..config() }, "rows"),
        (Config { block: 0, ..config() }, "block"),
        (Config { context: Some(0), ..config() }, "context"),
        (Config { waiting: 0, ..config() }, "waiting"),
        (Config { step_time: Some(Duration::ZERO), ..config() }, "step_time"),
    ] {
        let error = broken.fit(&model).unwrap_err();
        assert!(matches!(error, Error::Zero { limit } if limit == name), "{error}");
    }
    let error = Config { kv_bytes: 100, ..config() }.fit(&model).unwrap_err();
    assert!(error.to_string().contains("100"), "the number that was given: {error}");
    for kv_bytes in [u64::MAX, 1 << 45] {
        let fit = Config { kv_bytes, ..config() }.fit(&model).unwrap();
        assert_eq!(fit.context, 4_096);
    }
}
