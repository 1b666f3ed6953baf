//! Bounds on a vocabulary: it has tokens, their ids make a table of sensible size, and none is a book.

use std::collections::HashMap;
use std::path::Path;

use tokenizers::Tokenizer as Library;

use crate::error::{Error, Result};

/// The largest id of a token: real vocabularies end at some hundreds of thousands.
pub(super) const MAX_ID: u32 = 1 << 22;

/// The longest text of a token, in bytes; the longest of real vocabularies have some hundreds. Each use of one in an answer writes
/// all of it. [`SHORT`] says it too.
pub(crate) const MAX_TOKEN_BYTES: usize = 4096;
const SHORT: &str = "texts of tokens of at most 4096 bytes each";

/// The vocabulary of a `tokenizer.json`, added tokens included, if it can be one.
pub(super) fn read(library: &Library, path: &Path) -> Result<HashMap<String, u32>> {
    let vocab = library.get_vocab(true);
    let fault = |expected, found| Error::Config { path: path.to_path_buf(), key: "model.vocab", expected, found };
    if vocab.is_empty() {
        return Err(fault("a vocabulary with tokens", "none".to_owned()));
    }
    if let Some((token, id)) = vocab.iter().find(|(token, _)| token.len() > MAX_TOKEN_BYTES) {
        return Err(fault(SHORT, format!("{} bytes for token {id}", token.len())));
    }
    if let Some((token, id)) = vocab.iter().find(|(_, id)| **id > MAX_ID) {
        let (path, token) = (path.to_path_buf(), token.clone());
        return Err(Error::TokenId { path, token, id: *id, limit: MAX_ID });
    }
    Ok(vocab)
}

#[cfg(test)]
mod tests;
