//! The tokenizer's files of a folder, made of a GGUF file's SentencePiece vocabulary.
//!
//! Such a vocabulary merges by scores, and `tokenizer.json` wants a list of merges. The list follows from the scores: every way
//! to cut a piece in two pieces is a merge, best score first, then the longest parts. The Gemma files on the hub were made by this rule, and for the
//! model of the table it gives their list, entry by entry.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use omlx_gguf::Gguf;
use serde_json::{Map, Value, json};

use crate::shell::{Done, Failed};

/// A space inside a piece.
const MARK: &str = "\u{2581}";
/// Score of what the user defined: before anything that was learned.
const DEFINED_SCORE: f32 = 0.0;

/// `tokenizer.ggml.token_type`, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    Control,
    Defined,
    Other,
}

/// One entry of the vocabulary; its id is its place.
#[derive(Debug)]
struct Piece {
    text: String,
    score: f32,
    kind: Kind,
}

/// Writes `tokenizer.json` and `tokenizer_config.json` into `folder`. False, and nothing is written, where the vocabulary is of
/// another kind than Gemma's.
pub(super) fn write(gguf: &Path, folder: &Path) -> Done<bool> {
    let failed = |e: omlx_gguf::Error| Failed::new(e.to_string());
    let file = Gguf::open(gguf).map_err(failed)?;
    // another family puts a space before every text, which its tokenizer.json says in another way
    let gemmas = file.str("tokenizer.ggml.model").map_err(failed)? == "llama"
        && !file.bool_or("tokenizer.ggml.add_space_prefix", true).map_err(failed)?;
    if !gemmas {
        return Ok(false);
    }
    let pieces = pieces(&file).map_err(failed)?;
    let id = |name: &str| file.opt_u64(&format!("tokenizer.ggml.{name}_token_id")).map_err(failed);
    let named: Vec<(&str, u64)> =
        [("bos", id("bos")?), ("eos", id("eos")?), ("unk", id("unknown")?), ("pad", id("padding")?)]
            .into_iter()
            .filter_map(|(name, id)| Some((name, id?)))
            .collect();
    let text = |id: u64| usize::try_from(id).ok().and_then(|id| pieces.get(id)).map(|piece| piece.text.clone());
    let token = |name: &str| named.iter().find(|(n, _)| *n == name).and_then(|(_, id)| Some((text(*id)?, *id)));
    let bos = if file.bool_or("tokenizer.ggml.add_bos_token", true).map_err(failed)? { token("bos") } else { None };

    let mut config: Map<String, Value> =
        named.iter().filter_map(|(name, id)| Some((format!("{name}_token"), text(*id)?.into()))).collect();
    config.insert("tokenizer_class".to_owned(), "PreTrainedTokenizerFast".into());
    config.insert("add_bos_token".to_owned(), bos.is_some().into());
    config.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    let put = |name: &str, value: &Value| {
        // Renamed when it is whole: what is there counts as whole.
        let (path, making) = (folder.join(name), folder.join(format!("{name}.part")));
        fs::write(&making, format!("{value}\n")).and_then(|()| fs::rename(&making, &path)).map_err(Failed::at(&path))
    };
    put("tokenizer_config.json", &Value::Object(config))?;
    // last: it is what makes the folder whole
    put("tokenizer.json", &tokenizer(&pieces, token("unk").as_ref().map(|(text, _)| text.as_str()), bos))?;
    Ok(true)
}

fn pieces(file: &Gguf) -> omlx_gguf::Result<Vec<Piece>> {
    let texts = file.strings("tokenizer.ggml.tokens")?;
    let scores = file.f32s("tokenizer.ggml.scores")?;
    let kinds = file.u64s("tokenizer.ggml.token_type")?;
    let kind = |number: u64| match number {
        1 => Kind::Normal,
        3 => Kind::Control,
        4 => Kind::Defined,
        _ => Kind::Other,
    };
    // runs of spaces that the user defined stand in the file as they are typed
    let piece = |((text, score), number): ((&str, f32), u64)| Piece {
        text: text.replace(' ', MARK),
        // + 0.0: minus zero is a score like zero
        score: if kind(number) == Kind::Defined { DEFINED_SCORE } else { score + 0.0 },
        kind: kind(number),
    };
    Ok(texts.iter().zip(scores).zip(kinds).map(piece).collect())
}

/// All merges, the one to do first first.
fn merges(pieces: &[Piece]) -> Vec<[&str; 2]> {
    let ids: HashMap<&str, usize> = pieces.iter().enumerate().map(|(id, piece)| (piece.text.as_str(), id)).collect();
    let mut all = Vec::new();
    for piece in pieces.iter().filter(|piece| matches!(piece.kind, Kind::Normal | Kind::Defined)) {
        let cuts = piece.text.char_indices().skip(1).map(|(at, _)| piece.text.split_at(at));
        let mut known: Vec<_> =
            cuts.filter_map(|(left, right)| Some(((*ids.get(left)?, *ids.get(right)?), [left, right]))).collect();
        known.sort_by_key(|(ids, _)| *ids);
        all.extend(known.into_iter().map(|(_, merge)| (piece.score, merge)));
    }
    let lengths = |[left, right]: &[&str; 2]| (left.chars().count(), right.chars().count());
    // of the same score the longer left part first, then the longer right one, then (as the sort is stable) the lower id
    all.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| lengths(y).cmp(&lengths(x))));
    all.into_iter().map(|(_, merge)| merge).collect()
}

fn tokenizer(pieces: &[Piece], unknown: Option<&str>, bos: Option<(String, u64)>) -> Value {
    let added: Vec<Value> = pieces
        .iter()
        .enumerate()
        .filter(|(_, piece)| matches!(piece.kind, Kind::Control | Kind::Defined))
        .map(|(id, piece)| {
            json!({ "id": id, "content": piece.text, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": piece.kind == Kind::Control })
        })
        .collect();
    let vocab: Map<String, Value> =
        pieces.iter().enumerate().map(|(id, piece)| (piece.text.clone(), id.into())).collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": { "type": "Replace", "pattern": { "String": " " }, "content": MARK },
        "pre_tokenizer": {
            "type": "Split", "pattern": { "String": " " }, "behavior": "MergedWithPrevious", "invert": false
        },
        "post_processor": bos.map(|(text, id)| json!({
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": text, "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [
                { "SpecialToken": { "id": text, "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
                { "SpecialToken": { "id": text, "type_id": 1 } }, { "Sequence": { "id": "B", "type_id": 1 } }
            ],
            "special_tokens": { text.clone(): { "id": text, "ids": [id], "tokens": [text] } }
        })),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                { "type": "Replace", "pattern": { "String": MARK }, "content": " " },
                { "type": "ByteFallback" },
                { "type": "Fuse" }
            ]
        },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocab, "merges": merges(pieces)
        }
    })
}

#[cfg(test)]
mod tests;
