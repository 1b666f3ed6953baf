//! The text side of a GGUF file as the files of a model folder.
//!
//! A byte-level vocabulary already is what a `tokenizer.json` describes, so it can be written down as one. A SentencePiece
//! vocabulary is merged by scores here, and the folder format would need a list of merges that the file does not hold.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use tokenizers::Tokenizer as Library;
use tokenizers::processors::template::{SpecialToken, Template, TemplateProcessing};

use crate::error::{Error, Result};
use crate::gguf_vocab;
use crate::tokenizer::Around;

/// Writes `tokenizer.json`, `tokenizer_config.json` and, where there is a template, `chat_template.jinja` into `folder`, which
/// exists. False, and nothing is written, where the vocabulary is one of SentencePiece.
///
/// # Errors
/// When the file is not understood, or the folder cannot be written.
pub fn export_gguf(gguf: &Path, folder: &Path) -> Result<bool> {
    let parts = gguf_vocab::read(gguf)?;
    let Some((library, around)) = parts.tokenizer.library() else { return Ok(false) };
    let path = folder.join("tokenizer.json");
    let failed = |source| Error::Tokenizer { path: path.clone(), source };
    let mut library = library.clone();
    surround(&mut library, around).map_err(failed)?;
    write(&path, &library.to_string(false).map_err(failed)?)?;
    let mut config = parts.named;
    config.insert("tokenizer_class".to_owned(), "PreTrainedTokenizerFast".into());
    config.insert("add_bos_token".to_owned(), around.first.is_some().into());
    config.insert("add_eos_token".to_owned(), around.last.is_some().into());
    config.insert("added_tokens_decoder".to_owned(), added(&library));
    if let Some(template) = parts.sources?.get("default") {
        write(&folder.join("chat_template.jinja"), template)?;
    }
    write(&folder.join("tokenizer_config.json"), &format!("{:#}\n", Value::Object(config)))?;
    Ok(true)
}

/// What goes around a plain prompt is the post-processor's part in a `tokenizer.json`.
fn surround(library: &mut Library, around: Around) -> tokenizers::Result<()> {
    let name = |id: u32| library.id_to_token(id).unwrap_or_default();
    let tokens: Vec<SpecialToken> =
        around.first.iter().chain(&around.last).map(|id| SpecialToken::from((name(*id), *id))).collect();
    if tokens.is_empty() {
        return Ok(());
    }
    let pieces = around.first.map(name).into_iter().chain(["$A".to_owned()]).chain(around.last.map(name));
    let template = Template::try_from(pieces.collect::<Vec<_>>())?;
    let processor = TemplateProcessing::builder().single(template).special_tokens(tokens).build()?;
    library.with_post_processor(Some(processor));
    Ok(())
}

fn added(library: &Library) -> Value {
    let mut tokens: Vec<_> = library.get_added_tokens_decoder().into_iter().collect();
    tokens.sort_by_key(|(id, _)| *id);
    let entry = |token: tokenizers::AddedToken| {
        json!({ "content": token.content, "special": token.special, "normalized": token.normalized,
                "lstrip": token.lstrip, "rstrip": token.rstrip, "single_word": token.single_word })
    };
    tokens.into_iter().map(|(id, token)| (id.to_string(), entry(token))).collect::<Map<_, _>>().into()
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|source| Error::Io { path: path.to_path_buf(), source })
}
