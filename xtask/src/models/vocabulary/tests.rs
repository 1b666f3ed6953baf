//! A vocabulary of a few pieces, and the real one against what the hub's own `tokenizer.json` holds.
//!
//! Seen to fail: the worst score first, pieces that the user defined at their score in the file, cuts inside a character, minus zero
//! below zero, merges of the same score in the order of their ids.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::*;
use crate::models::{TABLE, cache};

fn piece(text: &str, score: f32, kind: Kind) -> Piece {
    Piece { text: text.to_owned(), score, kind }
}

#[test]
fn every_cut_is_a_merge_the_best_score_first() {
    let pieces = [
        piece("<unk>", -1000.0, Kind::Control),
        piece("a", -4.0, Kind::Normal),
        piece("b", -5.0, Kind::Normal),
        piece("é", -6.0, Kind::Normal),
        piece("ab", -2.0, Kind::Normal),
        piece("ba", -1.0, Kind::Normal),
        piece("aba", -3.0, Kind::Normal),
        piece("bé", -1.0, Kind::Normal),
        piece("aa", DEFINED_SCORE, Kind::Defined),
        piece("<0x61>", -1000.0, Kind::Other),
    ];
    assert_eq!(merges(&pieces), [["a", "a"], ["b", "a"], ["b", "é"], ["a", "b"], ["ab", "a"], ["a", "ba"]]);
    let made = tokenizer(&pieces, Some("<unk>"), Some(("<bos>".to_owned(), 7)));
    assert_eq!(made["model"]["vocab"]["aba"], 6);
    let added = made["added_tokens"].as_array().unwrap();
    let added: Vec<_> = added.iter().map(|token| (token["id"].as_u64().unwrap(), token["special"] == true)).collect();
    assert_eq!(added, [(0, true), (8, false)]);
    assert_eq!(made["post_processor"]["special_tokens"]["<bos>"]["ids"], json!([7]));
    assert_eq!(tokenizer(&pieces, None, None)["post_processor"], Value::Null);
}

/// Of the merges in the `tokenizer.json` that the hub has for the model, one a line with a space between.
const MERGES: (usize, &str) = (514_906, "1f135fa7a1d9cbd85598122588c5e5a68e550d29aff370daab72a104cc602fae");

#[test]
fn the_real_merges_are_those_of_the_hubs_file() {
    let gemma = TABLE.iter().find(|model| model.name == "gemma-3-270m").unwrap();
    let path = gemma.gguf(&cache().unwrap());
    if !path.is_file() {
        assert!(std::env::var_os("OMLX_REQUIRE_MODELS").is_none(), "{} is not there", path.display());
        println!("skipped: {} is not there", path.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(write(&path, folder.path()).unwrap());
    let made: Value = serde_json::from_slice(&fs::read(folder.path().join("tokenizer.json")).unwrap()).unwrap();
    let merges = made["model"]["merges"].as_array().unwrap();
    let mut sum = Sha256::new();
    for merge in merges {
        sum.update(format!("{} {}\n", merge[0].as_str().unwrap(), merge[1].as_str().unwrap()));
    }
    let sum = sum.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    assert_eq!((merges.len(), sum.as_str()), MERGES);
    let config: Value =
        serde_json::from_slice(&fs::read(folder.path().join("tokenizer_config.json")).unwrap()).unwrap();
    assert_eq!((&config["bos_token"], &config["eos_token"]), (&json!("<bos>"), &json!("<eos>")));
    // byte-level vocabularies are not for this
    let smol = TABLE[0].gguf(&cache().unwrap());
    assert!(!smol.is_file() || !write(&smol, folder.path()).unwrap());
}
