//! Text to ids, by a `tokenizer.json` or by the vocabulary inside a GGUF file.
//!
//! Special tokens that are spelled in the text (`<|im_end|>`) become their ids, as in the reference
//! tokenizers: templates depend on it. A chat message that spells one is therefore read as that token too.

mod file;
mod growth;
mod post;
mod trial;
mod vocabulary;

use std::path::Path;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::Value;
use tokenizers::Tokenizer as Library;

use crate::error::{Error, Result};
use crate::pieces::{Kind, Pieces, Spelling};
use crate::spm::Spm;

pub use trial::is_trying;
pub(crate) use vocabulary::MAX_TOKEN_BYTES;

/// The longest text that is encoded at once.
pub const MAX_TEXT_BYTES: usize = 16 << 20;

/// The longest that a text may become by normalization, for which the library takes some thirty times as much memory.
const MAX_NORMALIZED_BYTES: usize = 64 << 20;

/// By how much a normalizer may lengthen a text at most; real ones stay below two hundred.
const MAX_GROWTH: usize = 1024;

/// Either way of encoding, and the table for the way back.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    encoder: Encoder,
    around: Around,
    pub(crate) pieces: Arc<Pieces>,
    /// No token stands for more bytes of text than this; none where there is no such bound.
    widest: Option<usize>,
    /// The longest text that is encoded at once.
    most_bytes: usize,
}

/// Tokens that a plain prompt is put between.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around {
    pub(crate) first: Option<u32>,
    pub(crate) last: Option<u32>,
}

#[derive(Debug)]
enum Encoder {
    Library(Box<Library>),
    Spm(Box<Spm>),
}

impl Tokenizer {
    /// From the bytes of a `tokenizer.json`; `path` is for messages.
    pub(crate) fn from_json(json: &[u8], path: &Path) -> Result<Self> {
        let fault = |source| Error::Tokenizer { path: path.to_path_buf(), source };
        let read = trial::guarded(|| file::read(json));
        let mut library = read.map_err(|source| match serde_json::from_slice::<IgnoredAny>(json) {
            Ok(_) => fault(source),
            Err(source) => Error::Json { path: path.to_path_buf(), source },
        })?;
        // Files saved after training may ask for cutting and filling up; a prompt wants neither.
        library.with_truncation(None).map_err(fault)?;
        library.with_padding(None);
        let normalizer = serde_json::to_value(library.get_normalizer())
            .map_err(|source| Error::Json { path: path.to_path_buf(), source })?;
        let growth = growth::growth(&normalizer);
        if growth > MAX_GROWTH {
            return Err(Error::Growth { path: path.to_path_buf(), growth, limit: MAX_GROWTH });
        }
        let vocab = vocabulary::read(&library, path)?;
        let post = serde_json::to_value(library.get_post_processor())
            .map_err(|source| Error::Json { path: path.to_path_buf(), source })?;
        post::check(&post, |id| library.id_to_token(id).is_some(), path)?;
        trial::encode(&library).map_err(fault)?;
        let decoder = serde_json::to_value(library.get_decoder())
            .map_err(|source| Error::Json { path: path.to_path_buf(), source })?;
        let (spelling, drop_first_space) =
            spelling(&decoder).map_err(|found| Error::Decoder { path: path.to_path_buf(), found })?;
        let pieces = Arc::new(table((&library, vocab), 0, spelling, drop_first_space));
        // The file's own post-processor knows what goes around.
        let widest = widest(&library, &pieces);
        let most_bytes = MAX_TEXT_BYTES.min(MAX_NORMALIZED_BYTES / growth);
        let encoder = Encoder::Library(Box::new(library));
        Ok(Self { encoder, around: Around::default(), pieces, widest, most_bytes })
    }

    /// A library tokenizer built from a byte-level GGUF vocabulary of `vocab` tokens.
    pub(crate) fn byte_level(library: Library, around: Around, vocab: usize) -> Self {
        let pieces = Arc::new(table((&library, library.get_vocab(true)), vocab, Spelling::ByteLevel, false));
        let widest = widest(&library, &pieces);
        Self { encoder: Encoder::Library(Box::new(library)), around, pieces, widest, most_bytes: MAX_TEXT_BYTES }
    }

    /// A SentencePiece vocabulary with its table.
    pub(crate) fn spm(spm: Spm, around: Around, pieces: Pieces) -> Self {
        let (widest, most_bytes) = (Some(pieces.longest()), MAX_TEXT_BYTES);
        Self { encoder: Encoder::Spm(Box::new(spm)), around, pieces: Arc::new(pieces), widest, most_bytes }
    }

    /// The fewest tokens that a text of so many bytes can have; known without encoding it.
    pub(crate) fn least(&self, bytes: usize) -> usize {
        self.widest.map_or(0, |widest| bytes.div_ceil(widest.max(1)))
    }

    /// The ids of a text; `special` adds what the model wants around a prompt.
    pub(crate) fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        if text.len() > self.most_bytes {
            return Err(Error::TextTooLong { bytes: text.len(), limit: self.most_bytes });
        }
        let ids = match &self.encoder {
            Encoder::Library(library) => {
                let encoding = library.encode_fast(text, special);
                encoding.map_err(|source| Error::Encode { source })?.get_ids().to_vec()
            }
            Encoder::Spm(spm) => spm.encode(text),
        };
        let around = if special { self.around } else { Around::default() };
        Ok(around.first.into_iter().chain(ids).chain(around.last).collect())
    }

    /// The library's tokenizer with what goes around a prompt, unless the vocabulary is SentencePiece's.
    pub(crate) fn library(&self) -> Option<(&Library, Around)> {
        match &self.encoder {
            Encoder::Library(library) => Some((library, self.around)),
            Encoder::Spm(_) => None,
        }
    }

    /// The id of a token by its name.
    pub(crate) fn id_of(&self, name: &str) -> Option<u32> {
        match &self.encoder {
            Encoder::Library(library) => library.token_to_id(name),
            Encoder::Spm(spm) => spm.id_of(name),
        }
    }
}

/// The most bytes of text that become one token: the longest piece, or thrice that where the text is normalised first (three
/// letters of Hangul become one syllable of a third of their bytes). None where a token swallows the spaces around it.
fn widest(library: &Library, pieces: &Pieces) -> Option<usize> {
    let swallows = library.get_added_tokens_decoder().values().any(|token| token.lstrip || token.rstrip);
    let shrinks = if library.get_normalizer().is_some() { 3 } else { 1 };
    (!swallows).then(|| shrinks * pieces.longest())
}

/// Lays out the table of a library tokenizer with its vocabulary, for `least` ids or more.
fn table(
    (library, vocab): (&Library, impl IntoIterator<Item = (String, u32)>),
    least: usize,
    spelling: Spelling,
    drop_first_space: bool,
) -> Pieces {
    let added = library.get_added_tokens_decoder();
    let mut names: Vec<Option<String>> = vec![None; least];
    for (name, id) in vocab {
        let at = id as usize;
        if names.len() <= at {
            names.resize(at + 1, None);
        }
        names[at] = Some(name);
    }
    // Several names may share an id; an added token's own text is the one that is shown.
    for (id, token) in added.iter() {
        names[*id as usize] = Some(token.content.clone());
    }
    Pieces::new(names.len(), drop_first_space, |id| match &names[id as usize] {
        // A row that a GGUF vocabulary was filled up with.
        None if (id as usize) < least => (Vec::new(), Kind::Special),
        None => (Vec::new(), Kind::Absent),
        Some(name) => {
            let special = added.get(&id).is_some_and(|token| token.special);
            (spelling.bytes(name), if special { Kind::Special } else { Kind::Text })
        }
    })
}

/// Reads what a decoder does to each token, and whether it drops the first space; or the name of an unknown step.
fn spelling(decoder: &Value) -> Result<(Spelling, bool), String> {
    let one = std::slice::from_ref(decoder);
    let steps = decoder.get("decoders").and_then(Value::as_array).map_or(one, Vec::as_slice);
    let (mut byte_level, mut byte_fallback, mut space, mut drop_first) = (false, false, None, false);
    for step in steps {
        let text = |key: &str| step.get(key).and_then(Value::as_str);
        match text("type") {
            Some("ByteLevel") => byte_level = true,
            Some("ByteFallback") => byte_fallback = true,
            Some("Fuse") => {}
            Some("Metaspace") => {
                space = text("replacement").and_then(|r| r.chars().next());
                drop_first |= text("prepend_scheme") != Some("never");
            }
            Some("Replace") if text("content") == Some(" ") => {
                let pattern = step.pointer("/pattern/String").and_then(Value::as_str);
                space = pattern.and_then(single).ok_or_else(|| format!("Replace of {pattern:?}"))?.into();
            }
            Some("Strip") if text("content") == Some(" ") && step.get("stop") == Some(&Value::from(0)) => {
                drop_first |= step.get("start") == Some(&Value::from(1));
            }
            other => return Err(other.unwrap_or("none").to_owned()),
        }
    }
    let plain = Spelling::Plain { byte_fallback, space };
    Ok(if byte_level { (Spelling::ByteLevel, false) } else { (plain, drop_first) })
}

/// The only character of a text.
fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

#[cfg(test)]
mod tests;
