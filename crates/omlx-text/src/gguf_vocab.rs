//! The text side of a GGUF file: vocabulary, end tokens and template from its metadata.
//!
//! A byte-level vocabulary becomes the same tokenizer that the model's `tokenizer.json` describes; how it
//! cuts text before merging is known only by a name (`tokenizer.ggml.pre`), and an unknown name is an
//! error: a guess would give plausible but different ids.

mod pre;

use std::path::Path;

use omlx_gguf::{Gguf, Strings};
use serde_json::Map;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::{AddedToken, Tokenizer as Library};

use crate::defaults::SamplingDefaults;
use crate::ends;
use crate::error::{Error, Result};
use crate::folder::Parts;
use crate::pieces::{Kind, Pieces, SPACE_MARK, Spelling, named_byte};
use crate::spm::{Role, Spm};
use crate::template::Sources;
use crate::tokenizer::{Around, MAX_TOKEN_BYTES, Tokenizer};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";

/// Keys of the tokens that end an answer.
const END_KEYS: [&str; 3] =
    ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];

/// Tokens that templates may name, and the keys of their ids.
const NAMED: [(&str, &str); 5] = [
    ("bos_token", "tokenizer.ggml.bos_token_id"),
    ("eos_token", "tokenizer.ggml.eos_token_id"),
    ("unk_token", "tokenizer.ggml.unknown_token_id"),
    ("sep_token", "tokenizer.ggml.seperator_token_id"),
    ("pad_token", "tokenizer.ggml.padding_token_id"),
];

/// `tokenizer.ggml.token_type`, by the numbers of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenType {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// Reads a GGUF file.
pub(crate) fn read(path: &Path) -> Result<Parts> {
    let gguf = Gguf::open(path)?;
    let tokens = gguf.strings(TOKENS)?;
    bounded(tokens)?;
    let types = token_types(&gguf, tokens.len())?;
    let tokenizer = match gguf.str("tokenizer.ggml.model")? {
        "gpt2" => byte_level(&gguf, tokens, &types, path)?,
        "llama" => sentence_piece(&gguf, tokens, &types)?,
        other => return Err(Error::VocabularyKind { found: other.to_owned() }),
    };
    let mut stops = Vec::new();
    for key in END_KEYS {
        if let Some(id) = token_id(&gguf, key, tokens.len())? {
            ends::add(id, &mut stops);
        }
    }
    let mut named = Map::new();
    for (name, key) in NAMED {
        let id = token_id(&gguf, key, tokens.len())?;
        if let Some(text) = id.and_then(|id| tokens.get(id as usize)) {
            named.insert(name.to_owned(), text.into());
        }
    }
    Ok(Parts { tokenizer, ends: stops, defaults: SamplingDefaults::default(), sources: sources(&gguf, path), named })
}

/// There are tokens, and none is a book.
fn bounded(tokens: &Strings) -> Result<()> {
    if tokens.iter().next().is_none() {
        let (expected, found) = ("a vocabulary with tokens".to_owned(), "none".to_owned());
        return Err(Error::Vocabulary { key: TOKENS, expected, found });
    }
    match tokens.iter().enumerate().find(|(_, text)| text.len() > MAX_TOKEN_BYTES) {
        None => Ok(()),
        Some((id, text)) => Err(Error::Vocabulary {
            key: TOKENS,
            expected: format!("texts of at most {MAX_TOKEN_BYTES} bytes"),
            found: format!("{} bytes for token {id}", text.len()),
        }),
    }
}

fn sources(gguf: &Gguf, path: &Path) -> Result<Sources> {
    let mut sources = Sources::default();
    for (name, key) in [("default", "tokenizer.chat_template"), ("tool_use", "tokenizer.chat_template.tool_use")] {
        if let Some(text) = gguf.opt_str(key).map_err(|fault| Error::from(fault).within(path))? {
            sources.set(name, text.to_owned(), format!("{}: {key}", path.display()));
        }
    }
    Ok(sources)
}

/// The id under a key; one beyond the vocabulary is an error.
fn token_id(gguf: &Gguf, key: &'static str, vocab: usize) -> Result<Option<u32>> {
    let Some(found) = gguf.opt_u64(key)? else { return Ok(None) };
    match u32::try_from(found) {
        Ok(id) if (id as usize) < vocab => Ok(Some(id)),
        // Written by converters for "there is none".
        Ok(u32::MAX) => Ok(None),
        _ => Err(Error::Vocabulary { key, expected: format!("a token id below {vocab}"), found: found.to_string() }),
    }
}

fn token_types(gguf: &Gguf, vocab: usize) -> Result<Vec<TokenType>> {
    let Some(numbers) = gguf.opt_u64s(TYPES)? else {
        return Ok(vec![TokenType::Normal; vocab]);
    };
    same_length(TYPES, vocab, numbers.len())?;
    numbers
        .into_iter()
        .map(|number| {
            Ok(match number {
                1 => TokenType::Normal,
                2 => TokenType::Unknown,
                3 => TokenType::Control,
                4 => TokenType::UserDefined,
                5 => TokenType::Unused,
                6 => TokenType::Byte,
                other => {
                    return Err(Error::Vocabulary {
                        key: TYPES,
                        expected: "types 1 to 6".into(),
                        found: other.to_string(),
                    });
                }
            })
        })
        .collect()
}

fn same_length(key: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Vocabulary {
        key,
        expected: format!("one entry for each of the {expected} tokens"),
        found: found.to_string(),
    })
}

fn around(gguf: &Gguf, vocab: usize, add_bos: bool) -> Result<Around> {
    let wanted = |flag: &str, default: bool, key: &'static str| {
        if gguf.bool_or(flag, default)? { token_id(gguf, key, vocab) } else { Ok(None) }
    };
    Ok(Around {
        first: wanted("tokenizer.ggml.add_bos_token", add_bos, "tokenizer.ggml.bos_token_id")?,
        last: wanted("tokenizer.ggml.add_eos_token", false, "tokenizer.ggml.eos_token_id")?,
    })
}

fn byte_level(gguf: &Gguf, tokens: &Strings, types: &[TokenType], path: &Path) -> Result<Tokenizer> {
    let pre = pre::find(gguf.opt_str("tokenizer.ggml.pre")?.unwrap_or("default"))?;
    let failed = |source| Error::Tokenizer { path: path.to_path_buf(), source };
    let mut vocab = Vocab::with_capacity(tokens.len());
    let mut added = Vec::new();
    for ((id, name), kind) in (0u32..).zip(tokens.iter()).zip(types) {
        match kind {
            TokenType::Unused => continue,
            TokenType::Control | TokenType::Unknown => added.push(AddedToken::from(name, true)),
            TokenType::UserDefined => added.push(AddedToken::from(name, false)),
            TokenType::Normal | TokenType::Byte => {}
        }
        // The first id of a name is the one text gets.
        if !vocab.contains_key(name) {
            vocab.insert(name.to_owned(), id);
        }
    }
    let merges = gguf.strings(MERGES)?.iter().map(merge).collect::<Result<Merges>>()?;
    let bpe =
        BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(pre.ignore_merges).build().map_err(failed)?;
    let mut library = Library::new(bpe);
    pre.install(&mut library).map_err(failed)?;
    library.add_tokens(added.into_iter().map(|token| token.normalized(false))).map_err(failed)?;
    Ok(Tokenizer::byte_level(library, around(gguf, tokens.len(), pre.add_bos)?, tokens.len()))
}

/// `"a b"` as two pieces. The first byte may itself be a space in odd vocabularies.
fn merge(text: &str) -> Result<(String, String)> {
    let at = text.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
    match at {
        Some(at) => Ok((text[..at].to_owned(), text[at + 1..].to_owned())),
        None => Err(Error::Vocabulary {
            key: MERGES,
            expected: "two pieces with a space between".into(),
            found: format!("{text:?}"),
        }),
    }
}

fn sentence_piece(gguf: &Gguf, tokens: &Strings, types: &[TokenType]) -> Result<Tokenizer> {
    let scores = gguf.f32s(SCORES)?;
    same_length(SCORES, tokens.len(), scores.len())?;
    let space_prefix = gguf.bool_or("tokenizer.ggml.add_space_prefix", true)?;
    let unknown = token_id(gguf, "tokenizer.ggml.unknown_token_id", tokens.len())?;
    let roles = tokens.iter().zip(types).map(|(name, kind)| role(name, *kind));
    let vocabulary: Vec<_> = tokens.iter().zip(scores).zip(roles).map(|((n, s), r)| (n, s, r)).collect();
    let pieces = Pieces::new(tokens.len(), space_prefix, |id| {
        let (name, _, role) = vocabulary[id as usize];
        let spelling = Spelling::Plain { byte_fallback: false, space: Some(SPACE_MARK) };
        let bytes = if let Role::Byte(byte) = role { vec![byte] } else { spelling.bytes(name) };
        let hidden = matches!(types[id as usize], TokenType::Control | TokenType::Unknown | TokenType::Unused);
        (bytes, if hidden { Kind::Special } else { Kind::Text })
    });
    let spm = Spm::new(vocabulary.iter().copied(), unknown, space_prefix);
    Ok(Tokenizer::spm(spm, around(gguf, tokens.len(), true)?, pieces))
}

fn role(name: &str, kind: TokenType) -> Role {
    match (kind, named_byte(name)) {
        (TokenType::Byte, Some(byte)) => Role::Byte(byte),
        (TokenType::Normal, _) => Role::Normal,
        (TokenType::Control | TokenType::UserDefined | TokenType::Unknown, _) => Role::Whole,
        (TokenType::Unused | TokenType::Byte, _) => Role::Silent,
    }
}

#[cfg(test)]
mod tests;
