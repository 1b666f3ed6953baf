//! What can go wrong between text and ids, in the words of whoever loads a model or sends a chat.
//!
//! [`Error::is_request`] tells the caller's fault from the model folder's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why text could not be loaded, encoded, rendered or decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A fault of a vocabulary or template that does not name its file, with the file or folder it is in.
    #[error("{}: {fault}{}", path.display(), fault.way_out())]
    In {
        /// The GGUF file or the model folder.
        path: PathBuf,
        /// What is wrong with it.
        fault: Box<Error>,
    },
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The model folder has no tokenizer.
    #[error("{}: no tokenizer.json; fetch it from the model's page, or convert the model with a current transformers", path.display())]
    NoTokenizer {
        /// The model folder.
        path: PathBuf,
    },
    /// A file is larger than such a file can sensibly be.
    #[error("{}: {bytes} bytes, at most {limit} are read; this is not the file it should be, fetch it again", path.display())]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A file is not the JSON it should be.
    #[error("{}: not the JSON it should be: {source}; the file was cut off or changed, fetch it again", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A known key holds a value of a kind nobody defined.
    #[error("{}: {key} should be {expected}, found {found}; correct it, or fetch the file again", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// The tokenizer file or vocabulary could not be built.
    #[error("{}: the tokenizer cannot be built: {source}; fetch the file again, or take another form of the model", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What the tokenizer library said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A token's id is so large that the table of all ids would take all memory.
    #[error("{}: token {token:?} has the id {id}, at most {limit} is taken; the file was changed, fetch it again", path.display())]
    TokenId {
        /// The file.
        path: PathBuf,
        /// The token.
        token: String,
        /// Its id.
        id: u32,
        /// The largest id.
        limit: u32,
    },
    /// A normalizer that makes a text much longer than it was takes all memory.
    #[error("{}: its normalizer makes of each byte up to {growth}, at most {limit} are taken; the file was changed, fetch it again", path.display())]
    Growth {
        /// The file.
        path: PathBuf,
        /// Bytes that one byte can become.
        growth: usize,
        /// The limit.
        limit: usize,
    },
    /// The tokenizer decodes in a way this crate does not know.
    #[error("{}: decoder {found} is not known; known are ByteLevel, Metaspace and Replace/ByteFallback/Fuse/Strip; take another form of the model, such as a GGUF file", path.display())]
    Decoder {
        /// The file.
        path: PathBuf,
        /// The decoder's type name.
        found: String,
    },
    /// The GGUF container could not be read.
    #[error(transparent)]
    Gguf(#[from] omlx_gguf::Error),
    /// The GGUF vocabulary is of a kind this crate does not know.
    #[error("tokenizer.ggml.model is {found:?}; known are \"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece)")]
    VocabularyKind {
        /// What the file says.
        found: String,
    },
    /// The GGUF's way of cutting text before BPE is not known: guessing would give other ids.
    #[error(
        "tokenizer.ggml.pre is {found:?}; known are {known}; load the model's own folder with its tokenizer.json instead"
    )]
    PreTokenizer {
        /// What the file says.
        found: String,
        /// The names that are known.
        known: String,
    },
    /// The GGUF vocabulary contradicts itself.
    #[error("{key}: expected {expected}, found {found}; the file is damaged or was converted by a faulty tool")]
    Vocabulary {
        /// The metadata key.
        key: &'static str,
        /// What was expected there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The chat template is larger than any sensible template.
    #[error("{origin}: a chat template of {bytes} bytes, at most {limit} are read")]
    TemplateTooLarge {
        /// The file, and the key in it.
        origin: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The chat template does not parse.
    #[error("{origin}: chat template, line {line}: {reason}")]
    TemplateSyntax {
        /// The file, and the key in it.
        origin: String,
        /// Line in the template, from 1; 0 when not known.
        line: usize,
        /// What the template engine said.
        reason: String,
    },
    /// The model's chat template cannot be used, whatever the chat; everything else of the model can.
    #[error(
        "{fault}; mend or replace the template (a chat_template.jinja in the model's folder goes before others), or use the completions route (/v1/completions), which needs none"
    )]
    BrokenTemplate {
        /// What is wrong with it.
        fault: Arc<Error>,
    },
    /// The model has no chat template.
    #[error(
        "the model has no chat template; use the completions route (/v1/completions), or put a chat_template.jinja into the model's folder, or take a GGUF file that holds one"
    )]
    NoTemplate,
    /// The chat template refused the chat by `raise_exception`.
    #[error("{message}")]
    Refused {
        /// The template's own words.
        message: String,
    },
    /// The chat template failed on this chat.
    #[error(
        "{origin}: chat template, line {line}: {reason}; change the messages to what the template expects, mend or replace it (a chat_template.jinja in the model's folder goes before others), or use the completions route (/v1/completions), which needs none"
    )]
    TemplateFailed {
        /// The file, and the key in it.
        origin: String,
        /// Line in the template, from 1; 0 when not known.
        line: usize,
        /// What the template engine said.
        reason: String,
    },
    /// Rendering took more work than any sensible template needs.
    #[error(
        "the chat template takes more time or memory than a chat of this size may need (a budget of {budget} steps, or 64 bytes each); use another template, or the completions route (/v1/completions)"
    )]
    TemplateBudget {
        /// The budget for a chat of this size.
        budget: u64,
    },
    /// A message is not of the shape the chat format defines.
    #[error("messages[{index}]{at}: expected {expected}, found {found}")]
    Message {
        /// Which message.
        index: usize,
        /// Where in it, as a path.
        at: String,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A message carries a part that a text model cannot read.
    #[error("messages[{index}]{at}: this model reads text only, found a part of type {found:?}")]
    Part {
        /// Which message.
        index: usize,
        /// Where in it, as a path.
        at: String,
        /// The part's type.
        found: String,
    },
    /// `continue_final` was asked, but the last message cannot be continued.
    #[error("the last message cannot be continued: {reason}")]
    Continue {
        /// Why not.
        reason: &'static str,
    },
    /// The text is longer than is accepted at once.
    #[error("text of {bytes} bytes, at most {limit} are accepted at once")]
    TextTooLong {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The text has more tokens than its reader can use, however it is encoded.
    #[error("the text has at least {least} tokens, fewer than {most} can be used; shorten it")]
    TooManyTokens {
        /// The fewest it can have.
        least: usize,
        /// The bound.
        most: usize,
    },
    /// The tokenizer failed on this text.
    #[error("the text cannot be tokenized: {source}")]
    Encode {
        /// What the tokenizer library said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An id is not in the vocabulary.
    #[error("token {id} is not in the vocabulary of {vocab}")]
    UnknownToken {
        /// The id.
        id: u32,
        /// The size of the vocabulary.
        vocab: usize,
    },
}

impl Error {
    /// Names the file or folder, where the fault does not do so itself.
    pub(crate) fn within(self, path: &Path) -> Self {
        let nameless = match &self {
            Self::Gguf(fault) => !matches!(fault, omlx_gguf::Error::In { .. }),
            Self::VocabularyKind { .. } | Self::PreTokenizer { .. } | Self::Vocabulary { .. } => true,
            _ => false,
        };
        if nameless { Self::In { path: path.to_owned(), fault: Box::new(self) } } else { self }
    }

    /// What to do about a fault whose own words do not say.
    fn way_out(&self) -> &'static str {
        match self {
            Self::Gguf(omlx_gguf::Error::In { fault, .. }) => Self::gguf_way_out(fault),
            Self::Gguf(fault) => Self::gguf_way_out(fault),
            _ => "",
        }
    }

    fn gguf_way_out(fault: &omlx_gguf::Error) -> &'static str {
        match fault {
            // It is not the contents.
            omlx_gguf::Error::NotAFile => "",
            omlx_gguf::Error::Io(_) => "; put the file back, or mend what keeps it from being read",
            _ => "; fetch the file again, or load the model's own folder with its tokenizer.json",
        }
    }

    /// Whether the request is at fault (and not the model's files).
    pub fn is_request(&self) -> bool {
        matches!(
            self,
            Self::NoTemplate
                | Self::BrokenTemplate { .. }
                | Self::Refused { .. }
                | Self::TemplateFailed { .. }
                | Self::TemplateBudget { .. }
                | Self::Message { .. }
                | Self::Part { .. }
                | Self::Continue { .. }
                | Self::TextTooLong { .. }
                | Self::TooManyTokens { .. }
                | Self::Encode { .. }
                | Self::UnknownToken { .. }
        )
    }
}
