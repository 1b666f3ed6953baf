//! What command lines resolve to, and which are refused.

use clap::{CommandFactory, Parser};

use super::*;

fn resolve(args: &str) -> Result<Resolved> {
    Resolved::new(Cli::try_parse_from(std::iter::once("omlx-server").chain(args.split_whitespace()))?)
}

#[track_caller]
fn refused(args: &str, part: &str) {
    let error = format!("{:#}", resolve(args).map(|r| r.to_string()).unwrap_err());
    assert!(error.contains(part), "{args}: {error}");
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn defaults_are_on_loopback_without_a_key() {
    let r = resolve("--model m").unwrap();
    assert_eq!((r.host.as_str(), r.port, &r.access), ("127.0.0.1", 8000, &Access::ThisMachine));
    assert_eq!((r.settings.rows, r.settings.context, r.settings.kv_memory), (8, Context::Model, Memory::Percent(25.0)));
}

#[test]
fn a_key_is_kept_and_never_shown() {
    let r = resolve("--model m --api-key k-test-1").unwrap();
    assert_eq!(r.access, Access::Key("k-test-1".into()));
    assert!(!format!("{r:?} {r}").contains("k-test-1"));
}

#[test]
fn what_is_refused() {
    refused("", "--model");
    refused("--model a --model b --name n", "2 times");
    refused("--model-dir d --name n", "--model");
    refused("--model m --api-key schlüssel", "outside ASCII");
    refused("--model m --api-key k --no-auth", "cannot be used with");
    refused("--model m --kv-memory 12", "unit");
    refused("--model m --kv-memory 0%", "above 0%");
    refused("--model m --max-concurrent 0", "1..=4096");
    refused("--model m --context 1", "2..");
    refused("--model m --name=", "--name is empty");
    refused("--model m --block 0", "1..=1024");
    refused("--model m --port 70000", "65535");
    refused("--model m --kv-dtype f8", "possible values");
    refused("--model m --kernels none", "possible values");
    refused("--model m --memory-guard bold", "safe, balanced, aggressive, off");
    refused("--model m --step-ms 60001", "0..=60000");
}

#[test]
fn devices() {
    assert!(resolve("--model m").unwrap().to_string().contains("device          CPU, "));
    assert!(matches!(resolve("--model m --device cpu").unwrap().device, Device::Cpu));
    refused("--model m --device tpu", "known devices are cpu, cuda[:N] and metal[:N]");
    refused("--model m --device cuda:x", "must be a number");
    // A build that has one of them is not asked: its driver's words are not ours.
    if !candle_core::utils::cuda_is_available() {
        refused("--model m --device cuda", "rebuild with --features cuda");
        refused("--model m --device cuda:1", "cpu, the default, always can");
    }
    if !candle_core::utils::metal_is_available() {
        refused("--model m --device metal", "rebuild with --features metal");
    }
}

#[test]
fn the_guard_is_on_and_shown_and_steps_keep_time() {
    let r = resolve("--model m").unwrap();
    assert!(r.guard.limits.is_some_and(|limits| limits.most_bytes > 1 << 20), "{:?}", r.guard);
    assert!(r.to_string().contains("memory guard    balanced: at most "), "{r}");
    assert!(r.to_string().contains("256 tokens, prompts in chunks of about 100 ms"), "{r}");
    let r = resolve("--model m --memory-guard off --step-ms 0").unwrap();
    assert_eq!((r.guard.limits, r.settings.step_time), (None, None));
    assert!(r.to_string().contains("memory guard    off"), "{r}");
}
