//! Reads a `tokenizer.json` in one pass.
//!
//! The library reads the model of such a file into generic JSON and copies it from there, twice over, which takes seconds for a
//! quarter million tokens. Here a byte-pair model, which is nearly every one, goes straight into the library's builder. Whatever
//! this does not expect is left to the library: what it makes of a file is the definition, and so are its complaints.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::{
    AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Result,
    Tokenizer as Library,
};

/// The tokenizer that the file describes.
pub(super) fn read(json: &[u8]) -> Result<Library> {
    match serde_json::from_slice::<File>(json).ok().and_then(File::build) {
        Some(library) => Ok(library),
        None => Library::from_bytes(json),
    }
}

/// The file, as far as it is needed. Truncation and padding are for training.
#[derive(Deserialize)]
pub(super) struct File {
    version: Version,
    // `id` is what adding in this order comes to
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<PostProcessorWrapper>,
    decoder: Option<DecoderWrapper>,
    model: Model,
}

#[derive(Deserialize)]
enum Version {
    #[serde(rename = "1.0")]
    One,
}

#[derive(Deserialize)]
enum Kind {
    #[serde(rename = "BPE")]
    Bpe,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Kind,
    vocab: Vocab,
    merges: Vec<Merge>,
    #[serde(default)]
    dropout: Option<f32>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    fuse_unk: Option<bool>,
    #[serde(default)]
    byte_fallback: Option<bool>,
    #[serde(default)]
    ignore_merges: Option<bool>,
}

impl File {
    /// `None` where the library's own reading has to say what is wrong.
    pub(super) fn build(self) -> Option<Library> {
        let Self { version: Version::One, added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model } =
            self;
        let Kind::Bpe = model.kind;
        let mut builder = BPE::builder()
            .vocab_and_merges(model.vocab, model.merges.into_iter().map(|merge| merge.0).collect::<Vec<_>>())
            .fuse_unk(model.fuse_unk.unwrap_or(false))
            .byte_fallback(model.byte_fallback.unwrap_or(false))
            .ignore_merges(model.ignore_merges.unwrap_or(false));
        if let Some(dropout) = model.dropout {
            builder = builder.dropout(dropout);
        }
        if let Some(unknown) = model.unk_token {
            builder = builder.unk_token(unknown);
        }
        if let Some(prefix) = model.continuing_subword_prefix {
            builder = builder.continuing_subword_prefix(prefix);
        }
        if let Some(suffix) = model.end_of_word_suffix {
            builder = builder.end_of_word_suffix(suffix);
        }
        let mut library = Library::new(builder.build().ok()?);
        library.with_normalizer(normalizer).ok()?;
        library.with_pre_tokenizer(pre_tokenizer);
        library.with_post_processor(post_processor);
        library.with_decoder(decoder);
        library.add_tokens(added_tokens).ok()?;
        Some(library)
    }
}

/// Two pieces that are joined: a list of two, or in older files one text with a space between.
struct Merge((String, String));

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_any(MergeVisitor).map(Self)
    }
}

struct MergeVisitor;

impl<'de> Visitor<'de> for MergeVisitor {
    type Value = (String, String);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("two pieces")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Self::Value, E> {
        let mut pieces = text.split(' ');
        match (pieces.next(), pieces.next(), pieces.next()) {
            (Some(a), Some(b), None) => Ok((a.to_owned(), b.to_owned())),
            _ => Err(E::custom("not two pieces")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pieces: A) -> std::result::Result<Self::Value, A::Error> {
        match (pieces.next_element()?, pieces.next_element()?, pieces.next_element::<String>()?) {
            (Some(a), Some(b), None) => Ok((a, b)),
            _ => Err(A::Error::custom("not two pieces")),
        }
    }
}

#[cfg(test)]
mod tests;
