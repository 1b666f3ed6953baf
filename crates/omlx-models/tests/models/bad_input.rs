//! Model folders that must not load: each error names the file, the key or tensor, and the way out. And what must not
//! change unnoticed: the fingerprint (a fault seen to be caught: only the first bytes of each file hashed).

use std::fs;
use std::path::Path;

use candle_core::{DType, Device};
use omlx_fixtures::{RandomLlama, random_llama, tiny};
use omlx_models::{LoadOptions, Loaded, Result, load};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::run::Run;

const OPTIONS: LoadOptions = LoadOptions { kv: DType::F32 };

fn open(path: &Path) -> Result<Loaded> {
    load(path, &Device::Cpu, &OPTIONS)
}

/// A copy of a tiny model to spoil.
fn copy(name: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(tiny(name).join(file), dir.path().join(file)).unwrap();
    }
    dir
}

fn change(dir: &Path, edit: impl FnOnce(&mut Map<String, Value>)) {
    let path = dir.join("config.json");
    let mut keys = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut keys);
    fs::write(path, Value::Object(keys).to_string()).unwrap();
}

#[track_caller]
fn refused(dir: &Path, expected: &[&str]) {
    let error = open(dir).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "{error}\nlacks {part:?}");
    }
}

#[test]
fn what_is_no_model() {
    let dir = TempDir::new().unwrap();
    refused(dir.path(), &["neither a folder with a config.json nor a .gguf file"]);
    refused(&dir.path().join("absent"), &["absent", "neither a folder"]);
    fs::write(dir.path().join("config.json"), "{").unwrap();
    refused(dir.path(), &["config.json: not a JSON object"]);
    fs::write(dir.path().join("config.json"), "[]").unwrap();
    refused(dir.path(), &["config.json: not a JSON object"]);
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    refused(dir.path(), &["config.json: needs the key `model_type`"]);
    fs::copy(tiny("llama").join("config.json"), dir.path().join("config.json")).unwrap();
    refused(dir.path(), &["no *.safetensors file", "downloaded"]);
}

#[test]
fn configs() {
    type Case = (fn(&mut Map<String, Value>), &'static [&'static str]);
    let cases: [Case; 10] = [
        (
            |k| drop(k.insert("model_type".into(), "mamba2".into())),
            &["config.json: `model_type` is \"mamba2\"", "known: llama"],
        ),
        (|k| drop(k.remove("num_attention_heads")), &["config.json: needs the key `num_attention_heads`"]),
        (
            |k| drop(k.insert("rope_scaling".into(), json!({"rope_type": "dynamic", "factor": 2.0}))),
            &["`rope_scaling.rope_type` is \"dynamic\"", "known: default, linear, llama3, yarn"],
        ),
        (
            |k| drop(k.insert("rope_theta".into(), 1.into())),
            &["config.json: rotary embedding", "base must be", "take config.json from the model's publisher"],
        ),
        (
            |k| {
                let scaling =
                    json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4, "high_freq_factor": 1});
                k.insert("rope_scaling".into(), scaling);
            },
            &[
                "config.json: rotary embedding",
                "high_freq_factor must be",
                "take config.json from the model's publisher",
            ],
        ),
        (|k| drop(k.insert("hidden_act".into(), "gelu".into())), &["`hidden_act` is \"gelu\"", "known: silu"]),
        (
            |k| drop(k.insert("quantization_config".into(), json!({"quant_method": "gptq"}))),
            &["`quantization_config.quant_method` is \"gptq\"", ".gguf"],
        ),
        (
            |k| drop(k.insert("hidden_size".into(), 128.into())),
            &["model.embed_tokens.weight: expected [272, 128], file has [272, 64]", "different size"],
        ),
        (
            |k| drop(k.insert("num_hidden_layers".into(), 3.into())),
            &["no tensor model.layers.2.input_layernorm.weight", "another model?"],
        ),
        (
            |k| drop(k.insert("num_hidden_layers".into(), 1.into())),
            &["9 tensor(s) that a model of type llama has no place for", "model.layers.1."],
        ),
    ];
    for (edit, expected) in cases {
        let dir = copy("llama");
        change(dir.path(), edit);
        refused(dir.path(), expected);
    }
}

/// Qwen2's biases are not Llama's: read as Llama it would be quietly wrong.
#[test]
fn tensors_without_a_place() {
    let dir = copy("qwen2");
    change(dir.path(), |k| {
        k.insert("model_type".into(), "llama".into());
        k.remove("architectures");
    });
    refused(dir.path(), &["6 tensor(s)", "model.layers.0.self_attn.k_proj.bias"]);
}

#[test]
fn files_that_were_cut_or_lie() {
    let dir = copy("llama");
    let path = dir.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    refused(dir.path(), &["model.safetensors: tensor ", "the file has", "fetch it again"]);
    fs::write(&path, &whole[..100]).unwrap();
    refused(dir.path(), &["model.safetensors: says its header has", "the file has 100"]);
    fs::write(&path, &whole[..5]).unwrap();
    refused(dir.path(), &["model.safetensors: 5 bytes, too few"]);
    fs::write(&path, [&whole[..], &[0; 4]].concat()).unwrap();
    refused(dir.path(), &["4 bytes after the last tensor"]);
    fs::write(&path, "").unwrap();
    refused(dir.path(), &["model.safetensors: empty", "download it again"]);
}

/// Files that nobody's tools write, but downloads and editors do.
#[test]
fn json_of_other_hands() {
    let dir = copy("llama");
    let config = dir.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("\u{feff}{text}")).unwrap();
    assert!(open(dir.path()).is_ok(), "a byte order mark is no fault");
    fs::write(&config, format!("{{\n  \"model_type\": llama{}", &text[1..])).unwrap();
    refused(dir.path(), &["config.json: not a JSON object", "line 2 column", "fetch the file again"]);
    fs::write(&config, "<html>404</html>").unwrap();
    refused(dir.path(), &["config.json: not a JSON object", "line 1 column 1"]);
}

#[cfg(unix)]
#[test]
fn pipes_are_refused_and_not_waited_for() {
    for name in ["config.json", "model.safetensors", "model.safetensors.index.json", "model.gguf"] {
        let dir = copy("llama");
        let file = dir.path().join(name);
        let _ = fs::remove_file(&file);
        if name.contains("index") {
            fs::remove_file(dir.path().join("model.safetensors")).unwrap();
        }
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        let path = if name.ends_with("gguf") { file } else { dir.path().to_owned() };
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(open(&path).map(|_| ()).unwrap_err().to_string()));
        let said = receiver.recv_timeout(std::time::Duration::from_secs(20)).expect("an answer, not a wait");
        let neither = said.contains("neither a folder");
        assert!(neither || (said.contains(name) && said.contains("not a regular file")), "{name}: {said}");
    }
}

#[test]
fn a_dtype_that_does_not_load() {
    let dir = copy("llama");
    let path = dir.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    // Same width, other meaning; the header keeps its length.
    let at = bytes.windows(6).position(|w| w == b"\"BF16\"").unwrap();
    bytes[at..at + 6].copy_from_slice(b"\"I16\" ");
    fs::write(&path, &bytes).unwrap();
    refused(dir.path(), &["is stored as I16; loadable are F32, BF16, F16", "model.safetensors"]);
    // One that no version of the format has.
    bytes[at..at + 6].copy_from_slice(b"\"F7\"  ");
    fs::write(&path, &bytes).unwrap();
    let weight = ".weight is stored as F7; loadable are F32, BF16, F16: take the model stored as one of them";
    refused(dir.path(), &[weight, "model.safetensors"]);
}

#[test]
fn sharded_folders() {
    let (one, three) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    random_llama(one.path(), &RandomLlama::default());
    random_llama(three.path(), &RandomLlama { shards: 3, ..RandomLlama::default() });
    let (a, b) = (open(one.path()).unwrap().card, open(three.path()).unwrap().card);
    assert_eq!((a.parameters, a.weight_bytes, a.dtypes[0].0), (b.parameters, b.weight_bytes, "F32"));
    assert!(b.warnings.is_empty());
    let logits = |dir: &TempDir| Run::new(dir.path(), 8, 64).step(&[1, 20, 300, 4, 50, 6], 6);
    assert!(logits(&one) == logits(&three), "the same weights give the same bits");
    fs::remove_file(three.path().join("model-00002-of-00003.safetensors")).unwrap();
    refused(three.path(), &["incomplete, missing model-00002-of-00003.safetensors", "download it again"]);
}

#[test]
fn a_stale_index_is_a_warning_on_the_card() {
    let dir = TempDir::new().unwrap();
    random_llama(dir.path(), &RandomLlama { shards: 2, ..RandomLlama::default() });
    let index = dir.path().join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap().replace("-of-00002", "-of-00004");
    fs::write(&index, text).unwrap();
    let card = open(dir.path()).unwrap().card;
    assert_eq!(card.warnings.len(), 1);
    assert!(card.warnings[0].to_string().contains("model-00001-of-00004.safetensors"));
}

#[test]
fn keys_and_values_in_odd_types() {
    let error = load(&tiny("llama"), &Device::Cpu, &LoadOptions { kv: DType::U8 }).unwrap_err().to_string();
    assert!(error.contains("use f32, f16 or bf16"), "{error}");
}

/// One bit of one weight, or one value of the config: same name, same size, another model.
#[test]
fn the_fingerprint_sees_a_single_bit() {
    let dir = copy("llama");
    let print = |dir: &TempDir| open(dir.path()).unwrap().card.fingerprint;
    let first = print(&dir);
    assert_eq!(first, print(&copy("llama")));
    let path = dir.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_ne!(first, print(&dir));
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(first, print(&dir));
    change(dir.path(), |k| drop(k.insert("rope_theta".into(), 20_000.into())));
    assert_ne!(first, print(&dir));
}

/// Of a model with several parts only the text part is looked at, whatever its tensors' prefix.
#[test]
fn the_text_part_of_a_model_with_several() {
    for (root, head) in [("language_model.model.", "language_model.lm_head"), ("model.language_model.", "lm_head")] {
        let dir = copy("llama");
        change(dir.path(), |k| {
            let text = std::mem::take(k);
            *k = serde_json::from_value(json!({"model_type": "llama", "text_config": text, "vision_config": {}}))
                .unwrap();
        });
        let path = dir.path().join("model.safetensors");
        let bytes = fs::read(&path).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let text = String::from_utf8(bytes[8..8 + header].to_vec()).unwrap();
        let text = text.replace("\"model.", &format!("\"{root}")).replace("\"lm_head", &format!("\"{head}"));
        let file = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &bytes[8 + header..]].concat();
        fs::write(&path, file).unwrap();
        assert_eq!(open(dir.path()).unwrap().card.parameters, open(&tiny("llama")).unwrap().card.parameters);
    }
}
