//! Time and urgency: steps that keep to their target while somebody waits, and batch work that lets others pass.
//!
//! Faults seen to be caught: `took` never called (chunks stay as large as they can be); every request interactive.

use std::time::Duration;

use futures_util::StreamExt;
use omlx_api::{Event, Generate, Priority};
use omlx_engine::Config;

use crate::answer::{block_on, engine, finish};
use crate::planted::{Fault, Watch, config, echo};

/// Tokens of the steps that read a prompt of 3,000 beside a stream, a step taking 0.5 ms per token.
fn beside_a_stream(step_time: Option<Duration>) -> Vec<usize> {
    let watch = Watch { slowness: Duration::from_micros(500), ..Watch::default() };
    let (model, watch) = echo(Fault::Nothing, |_| false, watch);
    let config = Config { step_tokens: 400, chunk_tokens: 400, step_time, ..config() };
    let engine = engine(model, config);
    block_on(async {
        let mut stream = engine.generate(Generate::new(vec![1; 5], 3_000)).await.unwrap();
        assert!(matches!(stream.next().await, Some(Event::Token { .. })));
        finish(engine.generate(Generate::new(vec![2; 3_000], 1)).await.unwrap()).await;
    });
    let sizes = watch.sizes.lock().unwrap();
    sizes.iter().copied().filter(|tokens| *tokens > 5).collect()
}

#[test]
fn chunks_shrink_until_a_step_keeps_its_time() {
    let free = beside_a_stream(None);
    assert_eq!(free[..7], [400; 7], "without a target a step is as large as it can be");
    // 50 ms are at most 100 tokens, and fewer on a machine that is busy.
    let kept = beside_a_stream(Some(Duration::from_millis(50)));
    assert_eq!(kept[0], 400, "nobody has measured yet");
    let late = &kept[4..];
    assert!(late.len() > 20 && late.iter().all(|tokens| *tokens <= 102), "{kept:?}");
    // Seen to hold for the smallest chunk, too.
    let least = beside_a_stream(Some(Duration::from_micros(1)));
    assert!(least[4..least.len() - 1].iter().all(|tokens| *tokens == 33), "{least:?}");
}

#[test]
fn batch_work_lets_those_pass_who_come_later() {
    for (priority, steps_needed) in [(Priority::Batch, 6), (Priority::Interactive, 26)] {
        let (model, watch) = echo(Fault::Nothing, |_| false, Watch::default());
        let engine = engine(model, Config { rows: 1, ..config() });
        block_on(async {
            watch.allow(0);
            let decoy = engine.generate(Generate::new(vec![1], 1)).await.unwrap();
            let early = Generate { priority, ..Generate::new(vec![2; 5], 20) };
            let early = engine.generate(early).await.unwrap();
            let late = engine.generate(Generate::new(vec![3; 5], 5)).await.unwrap();
            watch.allow(steps_needed);
            assert_eq!(finish(late).await.ids.len(), 5);
            watch.allow(usize::MAX);
            assert_eq!((finish(decoy).await.ids.len(), finish(early).await.ids.len()), (1, 20));
        });
    }
}

/// Nobody comes any more: what has waited is served.
#[test]
fn batch_work_alone_is_work_like_any_other() {
    let (model, _) = echo(Fault::Nothing, |_| false, Watch::default());
    let engine = engine(model, config());
    block_on(async {
        let batch = Generate { priority: Priority::Batch, ..Generate::new(vec![2; 5], 20) };
        assert_eq!(finish(engine.generate(batch).await.unwrap()).await.ids.len(), 20);
    });
}
