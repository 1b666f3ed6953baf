//! Steps that fail: who is told, what is given back, who goes on, and when it is enough.
//!
//! Faults seen to be caught: the inner `catch_unwind` left out (those who wait die too); `Sched::settle` in place of `fail` (blocks of the
//! failed step are found); failures never forgotten (the engine of `now_and_then` ends); the mailbox dropped last (a failed
//! ticket finds the engine alive); the memory freed last.

use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use futures_util::future::join_all;
use omlx_api::{Busy, EngineHandle, Event, Fault, Generate, Ticket, TokenMask};
use omlx_engine::Config;
use omlx_models::EchoModel;

use crate::answer::{Answer, ask, block_on, engine, finish, settled};
use crate::planted::{Fault as Plant, Watch, config, echo};

/// `n` requests of ten tokens and a limit of `limit`, all there before the first step but one; the gate is shut.
async fn crowd(engine: &EngineHandle, watch: &Watch, n: u32, limit: usize) -> Vec<Ticket> {
    let mut tickets = Vec::new();
    watch.allow(0);
    for i in 0..n {
        tickets.push(engine.generate(Generate::new(vec![i; 10], limit)).await.unwrap());
    }
    tickets
}

fn echoed(echo: &EchoModel, prompt: &[u32], n: usize) -> Vec<u32> {
    let mut tokens = prompt.to_vec();
    for _ in 0..n {
        tokens.push(echo.answer(&tokens));
    }
    tokens.split_off(prompt.len())
}

#[track_caller]
fn step_failed(got: &Answer, reason: &str) {
    let Event::Failed(Fault::Step { reason: said }) = &got.end else { panic!("{:?}", got.end) };
    assert!(said.contains(reason), "{said}");
}

/// Four run and two wait when a step goes wrong: the four are told, the two are answered.
fn four_of_six(fault: Plant, reason: &str) {
    let (model, watch) = echo(fault, |step| step == 6, Watch::default());
    let echo = model.inner.clone();
    let engine = engine(model, config());
    block_on(async {
        let tickets = crowd(&engine, &watch, 6, 60).await;
        watch.allow(usize::MAX);
        let answers = join_all(tickets.into_iter().map(finish)).await;
        for (i, got) in (0..).zip(&answers) {
            let right = echoed(&echo, &[i; 10], 60);
            if i < 4 {
                step_failed(got, reason);
                assert!(!got.ids.is_empty() && got.ids.len() < 7 && right.starts_with(&got.ids), "of six good steps");
            } else {
                assert_eq!(got.ids, right);
            }
        }
        let now = settled(&engine).await;
        assert_eq!((now.failed_steps, engine.is_alive()), (1, true));
        assert_eq!(ask(&engine, Generate::new(vec![0; 10], 9)).await.ids, echoed(&echo, &[0; 10], 9));
    });
}

#[test]
fn a_panic_in_a_step() {
    four_of_six(Plant::Panic, "planted panic");
}
#[test]
fn a_device_error_in_a_step() {
    four_of_six(Plant::Error, "planted error");
}
/// The requests of the step, and nobody else: not the engine, and not those who wait.
#[test]
fn an_allocation_that_fails_in_a_step() {
    four_of_six(Plant::Memory, "no memory for 80740352 bytes");
}
#[test]
fn a_model_that_answers_for_other_rows() {
    four_of_six(Plant::Shape, "for other rows than asked");
}

struct Broken;
impl TokenMask for Broken {
    fn allow(&mut self, _accepted: &[u32], _allowed: &mut [bool]) {
        panic!("planted in a mask");
    }
}

#[test]
fn a_panic_while_tokens_are_drawn() {
    let (model, _) = echo(Plant::Nothing, |_| false, Watch::default());
    let echo = model.inner.clone();
    let engine = engine(model, config());
    block_on(async {
        let masked = Generate { mask: Some(Box::new(Broken)), ..Generate::new(vec![1, 2], 3) };
        step_failed(&ask(&engine, masked).await, "planted in a mask");
        assert_eq!(ask(&engine, Generate::new(vec![1, 2], 3)).await.ids, echoed(&echo, &[1, 2], 3));
        settled(&engine).await;
    });
}

/// Prompt of 72 tokens in steps of 32, blocks of 16; the step that fails is followed by the same prompt again.
fn found_again(fails: fn(usize) -> bool, cached: usize) {
    let (model, _) = echo(Plant::Error, fails, Watch::default());
    let echo = model.inner.clone();
    let engine = engine(model, config());
    block_on(async {
        let prompt: Vec<u32> = (0..72).collect();
        step_failed(&ask(&engine, Generate::new(prompt.clone(), 5)).await, "planted error");
        settled(&engine).await;
        let got = ask(&engine, Generate::new(prompt.clone(), 5)).await;
        assert_eq!((got.usage().cached, got.ids), (cached, echoed(&echo, &prompt, 5)));
    });
}

#[test]
fn blocks_of_a_failed_step_are_not_found_and_those_of_good_ones_are() {
    found_again(|step| step == 0, 0);
    found_again(|step| step == 1, 32);
    found_again(|step| step == 2, 64);
    found_again(|step| step == 3, 64);
}

#[test]
fn three_in_a_row_end_the_engine() {
    let (model, watch) = echo(Plant::Panic, |step| step >= 6, Watch::default());
    // Many wait: whoever is told first looks while others are still being told.
    let engine = engine(model, Config { rows: 2, waiting: 2_000, ..config() });
    block_on(async {
        let mut tickets = crowd(&engine, &watch, 90, 60).await;
        for i in 0..1_900 {
            tickets.push(engine.generate(Generate::new(vec![i % 100], 5)).await.unwrap());
        }
        watch.allow(usize::MAX);
        for (i, ticket) in tickets.into_iter().enumerate() {
            let got = finish(ticket).await;
            if i < 4 {
                step_failed(&got, "planted panic");
                continue;
            }
            assert!(!engine.is_alive(), "who reads the failure finds the engine gone");
            assert!(watch.freed.load(Ordering::SeqCst), "and its memory free");
            let Event::Failed(Fault::Engine { reason }) = &got.end else { panic!("{:?}", got.end) };
            assert!(reason.contains("3 steps") && reason.contains("planted panic"), "{reason}");
        }
        assert_eq!(engine.generate(Generate::new(vec![1], 1)).await.err(), Some(Busy::Stopped));
    });
}

#[test]
fn now_and_then_is_no_reason_to_end() {
    let (model, _) = echo(Plant::Error, |step| step % 3 != 0, Watch::default());
    let engine = engine(model, config());
    block_on(async {
        for n in 0..20 {
            // Each ends in its second step; every second request's first step fails too.
            step_failed(&ask(&engine, Generate::new(vec![n; 10], 60)).await, "planted error");
        }
        assert!(engine.is_alive());
        assert!(settled(&engine).await.failed_steps >= 20);
    });
}

#[test]
fn a_panic_outside_of_a_step_ends_the_engine_at_once() {
    let (model, watch) = echo(Plant::Nothing, |_| false, Watch::default());
    let engine = engine(model, config());
    block_on(async {
        let mut running = crowd(&engine, &watch, 2, 4_000).await;
        watch.allow(usize::MAX);
        for ticket in &mut running {
            assert!(matches!(ticket.next().await, Some(Event::Token { .. })), "it is past the door");
        }
        watch.mute.store(true, Ordering::SeqCst);
        // Whether the mute model is met while drawing or at the door, it soon is both.
        let _late = engine.generate(Generate::new(vec![1], 1)).await;
        for ticket in running {
            let end = finish(ticket).await.end;
            let told = matches!(&end, Event::Failed(Fault::Engine { reason } | Fault::Step { reason })
                if reason.contains("outside of a step"));
            assert!(told, "{end:?}");
        }
        let begin = std::time::Instant::now();
        while engine.is_alive() {
            assert!(begin.elapsed().as_secs() < 5, "the engine goes on");
            drop(engine.generate(Generate::new(vec![1], 1)).await);
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
}
