//! Flags that change numbers: the server computes what the library computes with the same setting, and no other.
//!
//! Seen to be caught: a cache in f32 whatever the flag says; `--kernels` without effect.

use candle_core::{DType, Device};
use omlx_fixtures::{golden, tiny};
use omlx_kv::{KvStore, Solo};
use omlx_models::{LoadOptions, Model, load};
use omlx_text::TextModel;
use serde_json::json;

use crate::server::{Server, fails};

const MODEL: &str = "llama";
const STEPS: usize = 24;

/// A greedy continuation: the log-probability of each token, and the text.
#[derive(Debug)]
struct Said {
    logprobs: Vec<f32>,
    text: String,
}

/// What the server says.
fn served(args: &[&str]) -> Said {
    let path = tiny(MODEL);
    let server = Server::start(&[&["--model", path.to_str().unwrap()], args].concat());
    let prompt = golden(MODEL).prompt_ids;
    let request = json!({"model": MODEL, "prompt": prompt, "max_tokens": STEPS, "temperature": 0, "logprobs": 0});
    let answer = server.completions(&request).send().ok();
    let choice = &answer["choices"][0];
    let logprobs = choice["logprobs"]["token_logprobs"].as_array().unwrap();
    Said {
        logprobs: logprobs.iter().map(|l| l.as_f64().unwrap() as f32).collect(),
        text: choice["text"].as_str().unwrap().to_owned(),
    }
}

/// What the library says, with the cache of one sequence and no scheduler.
fn computed(kv: DType) -> Said {
    computed_with(kv, &KvStore::default())
}

fn computed_with(kv: DType, store: &KvStore) -> Said {
    let mut model = load(&tiny(MODEL), &Device::Cpu, &LoadOptions { kv }).unwrap().model;
    model.store(store);
    let text = TextModel::load(&tiny(MODEL)).unwrap();
    let mut solo = Solo::new(model.layout().clone(), 256, 32, &Device::Cpu).unwrap();
    let (mut next, mut ids, mut logprobs) = (golden(MODEL).prompt_ids, Vec::new(), Vec::new());
    while ids.len() < STEPS {
        let batch = solo.step(&next, 1).unwrap();
        let logits: Vec<f32> = model.forward(&batch, solo.cache()).unwrap().get(0).unwrap().to_vec1().unwrap();
        let (best, top) =
            logits.iter().enumerate().fold((0, f32::MIN), |best, (i, l)| if *l > best.1 { (i, *l) } else { best });
        if text.stop_ids().contains(&(best as u32)) {
            break;
        }
        let sum: f64 = logits.iter().map(|l| f64::from(*l - top).exp()).sum();
        ids.push(best as u32);
        logprobs.push(-sum.ln() as f32);
        next = vec![best as u32];
    }
    Said { logprobs, text: text.decode(&ids, true).unwrap() }
}

/// The largest difference of two continuations, which must be of the same length.
#[track_caller]
fn apart(a: &Said, b: &Said) -> f32 {
    assert_eq!(a.logprobs.len(), b.logprobs.len(), "{a:?} {b:?}");
    a.logprobs.iter().zip(&b.logprobs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn keys_and_values_are_kept_as_told() {
    let exact = computed(DType::F32);
    for (name, kv) in [("f32", DType::F32), ("f16", DType::F16), ("bf16", DType::BF16), ("", DType::F16)] {
        let told = if name.is_empty() { vec![] } else { vec!["--kv-dtype", name] };
        let (ours, theirs) = (served(&told), computed(kv));
        assert_eq!(ours.text, theirs.text, "{name}");
        assert!(apart(&ours, &theirs) < 1e-6, "{name}: {ours:?} {theirs:?}");
        // A type of half the size cannot leave every log-probability where it was.
        assert_eq!(apart(&ours, &exact) > 1e-5, kv != DType::F32, "{name}: {ours:?} {exact:?}");
    }
}

/// Seen to fail: the setting not handed to the model.
#[test]
fn keys_and_values_are_coded_as_told() {
    let exact = computed(DType::F32);
    let mut seen: Vec<f32> = Vec::new();
    for bits in ["off", "8", "4", "k=4,v=2"] {
        let store = KvStore { bits: bits.parse().unwrap(), ..KvStore::default() };
        let (ours, theirs) = (served(&["--kv-dtype", "f32", "--kv-bits", bits]), computed_with(DType::F32, &store));
        assert_eq!(ours.text, theirs.text, "{bits}");
        assert!(apart(&ours, &theirs) < 1e-6, "{bits}: {ours:?} {theirs:?}");
        // Codes cannot leave the first log-probability where it was, and no two settings move it alike. That more bits move it
        // less is so on the mean only, and tested where there are many numbers (`omlx-kv`).
        let off = (ours.logprobs[0] - exact.logprobs[0]).abs();
        assert_eq!(off > 1e-3, bits != "off", "{bits}: {off}");
        assert!(seen.iter().all(|other| (other - off).abs() > 1e-5), "{bits}: {off} as one of {seen:?}");
        seen.push(off);
    }
}

#[test]
fn reference_operations_say_the_same() {
    let exact = ["--kv-dtype", "f32"];
    let (fast, reference) = (served(&exact), served(&[&exact[..], &["--kernels", "reference"]].concat()));
    assert_eq!(fast.text, reference.text);
    let apart = apart(&fast, &reference);
    assert!(apart < 1e-4, "{apart}");
    assert!(apart > 0.0, "other sums in another order: to the bit the same means that the flag does nothing");
}

#[test]
fn a_device_that_is_not_there_is_told_with_a_way_out() {
    let path = tiny(MODEL);
    let said = fails(&["--model", path.to_str().unwrap(), "--port", "0", "--device", "abacus"]);
    assert!(said.contains("--device abacus") && said.contains("cpu, cuda[:N] and metal[:N]"), "{said}");
    for (device, there) in
        [("cuda", candle_core::utils::cuda_is_available()), ("metal", candle_core::utils::metal_is_available())]
    {
        if !there {
            let said = fails(&["--model", path.to_str().unwrap(), "--port", "0", "--device", device]);
            assert!(said.contains(&format!("rebuild with --features {device}")), "{said}");
        }
    }
}
