//! An idle engine uses no CPU. Alone in its binary, so that no other test's work is counted.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![cfg(target_os = "linux")]

use std::time::Duration;

use futures_util::StreamExt;
use omlx_api::{Event, Generate};
use omlx_blocks::Salt;
use omlx_engine::{Config, Place, spawn};
use omlx_models::EchoModel;
use omlx_ops::Reach;

/// User and system time of this process in clock ticks (usually of 10 ms).
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..].split(' ').collect();
    fields[12].parse::<u64>().unwrap() + fields[13].parse::<u64>().unwrap()
}

/// Caught: `try_next` in a loop in place of `wait`.
#[test]
fn before_between_and_after_requests() {
    let model = EchoModel::new(&[Reach::All], 50, 128);
    let salt = Salt::of(&[]);
    let engine =
        spawn(Box::new(model), salt, &candle_core::Device::Cpu, Config::new(1 << 20), Place::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..2 {
        let before = ticks();
        std::thread::sleep(Duration::from_millis(600));
        let used = ticks() - before;
        assert!(used <= 3, "{used} ticks while nothing was asked");
        runtime.block_on(async {
            let mut ticket = engine.generate(Generate::new(vec![1, 2], 5)).await.unwrap();
            while let Some(Event::Token { .. }) = ticket.next().await {}
        });
    }
}
