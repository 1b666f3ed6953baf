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
    refused("--model m --max-concurrent 0", "expected a whole number from 1 to 4096");
    refused("--model m --context 1", "expected a whole number, 2 or more");
    refused("--model m --name=", "--name is empty");
    refused("--model m --block 0", "from 1 to 1024");
    refused("--model m --port 70000", "expected a whole number from 0 to 65535");
    refused("--model m --port abc", "'--port <PORT>': expected a whole number from 0 to 65535");
    refused("--model m --max-tokens 0", "'--max-tokens <N>': expected a whole number, 1 or more");
    refused("--model m --set m:max_tokens=0", "max_tokens has to be a whole number of 1 or more, found `0`");
    refused("--model m --kv-dtype f8", "possible values");
    refused("--model m --kv-bits 5", "k=4,v=3");
    refused("--model m --kv-bits k=4", "no v=");
    refused("--model m --kernels none", "possible values");
    refused("--model m --memory-guard bold", "safe, balanced, aggressive, off");
    refused("--model m --memory-guard 120%", "lies above 0% and at most at 100%");
    let twice = resolve("--model m --memory-guard 12").map(|r| r.to_string()).unwrap_err().to_string();
    assert_eq!(twice.matches("with a unit").count(), 1, "{twice}");
    refused("--model m --step-ms 60001", "from 0 to 60000");
    refused("--model m --temperature 2.5", "'--temperature <T>': has to be between 0 and 2");
    refused("--model m --temp -1", "has to be between 0 and 2");
    refused("--model m --temperature hot", "has to be between 0 and 2");
    refused("--model m --top-k -1", "'--top-k <N>': expected a whole number, 0 or more");
    refused("--model m --top-p 0", "has to be above 0 and at most 1");
    refused("--model m --min-p 1.5", "has to be between 0 and 1");
    refused("--model m --repeat-penalty 0", "has to be above 0 and at most 10");
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
        let said = resolve("--model m --device cuda").unwrap_err().to_string();
        assert_eq!(said.matches("CUDA").count() + said.matches("available").count(), 1, "told once: {said}");
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

#[test]
fn an_owners_sampling_is_kept_and_shown() {
    let r = resolve("--model m").unwrap();
    assert_eq!(r.settings.sampling, omlx_http::Settings::default());
    assert!(r.to_string().contains("sampling        the request's values, else the model's"), "{r}");
    let flags = "--temp 0 --top-k 40 --top-p 0.9 --min-p 0.05 --repetition-penalty 1.1";
    let r = resolve(&format!("--model m {flags}")).unwrap();
    let s = r.settings.sampling;
    assert_eq!((s.temperature, s.top_k, s.top_p, s.min_p), (Some(0.0), Some(40), Some(0.9), Some(0.05)));
    assert_eq!((s.repetition_penalty, s.presence_penalty, s.max_tokens), (Some(1.1), None, None));
    let shown = "else the model's, else temperature 0, top_k 40, top_p 0.9, min_p 0.05, repetition_penalty 1.1";
    assert!(r.to_string().contains(shown), "{r}");
    let r = resolve("--model m --max-tokens 8 --set a/m:top_k=5,min-p=0.1 --set b:c:max_tokens=16").unwrap();
    assert_eq!(r.settings.sampling.max_tokens, Some(8));
    let set = |k, p, most| omlx_http::Settings { top_k: k, min_p: p, max_tokens: most, ..Default::default() };
    let given = [("a/m", set(Some(5), Some(0.1), None)), ("b:c", set(None, None, Some(16)))];
    assert_eq!(r.model_settings, given.map(|(name, settings)| (name.to_owned(), settings)));
    assert!(
        r.to_string().contains("the request's values, else those of --set, else the model's, else max_tokens 8"),
        "{r}"
    );
}

/// README's table has every flag with its default, and no other.
#[test]
fn the_readme_has_every_flag() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let rows: Vec<String> = readme.lines().filter(|l| l.starts_with("| `--")).map(|l| l.replace("\\|", "/")).collect();
    let cell = |row: &str, n: usize| row.split('|').nth(n).unwrap_or_default().to_owned();
    let named = |row: &str| -> Vec<String> {
        let cell = cell(row, 1);
        let flags = cell.split("--").skip(1);
        flags.map(|f| f.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect()).collect()
    };
    let command = Cli::command();
    let mut flags = Vec::new();
    for arg in command.get_arguments() {
        let long = arg.get_long().unwrap();
        let row = rows.iter().find(|row| named(row).iter().any(|name| name == long));
        let row = row.unwrap_or_else(|| panic!("README has no --{long}"));
        // a switch that is not given has a default too, `false`, which the table calls off
        for default in arg.get_default_values().iter().filter(|d| *d != "false") {
            let default = default.to_str().unwrap();
            assert!(cell(row, 2).contains(default), "--{long} is {default} unless given: {row}");
        }
        flags.push(long.to_owned());
    }
    for name in rows.iter().flat_map(|row| named(row)) {
        assert!(flags.contains(&name), "README has --{name}, the server has not");
    }
}
