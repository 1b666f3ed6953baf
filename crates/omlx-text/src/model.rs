//! One model's text side, loaded once and shared by all its requests.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::chat::{self, Chat};
use crate::decode::Decoder;
use crate::defaults::SamplingDefaults;
use crate::error::{Error, Result};
use crate::pieces::Kind;
use crate::session::Session;
use crate::template::Template;
use crate::tokenizer::Tokenizer;
use crate::{folder, gguf_vocab};

/// Tokenizer, chat template, end tokens and sampling defaults of a model.
#[derive(Debug)]
pub struct TextModel {
    tokenizer: Tokenizer,
    template: Option<Template>,
    /// Why there is no template although the model comes with one; kept to be said to whoever chats.
    fault: Option<Error>,
    ends: Vec<u32>,
    defaults: SamplingDefaults,
}

impl TextModel {
    /// Loads from a model folder, or from a `.gguf` file.
    pub fn load(path: &Path) -> Result<Self> {
        Self::read(path).map_err(|error| error.within(path))
    }

    fn read(path: &Path) -> Result<Self> {
        let parts = if path.is_dir() { folder::read(path)? } else { gguf_vocab::read(path)? };
        let named = parts.named;
        let (template, fault) = match parts.sources.and_then(|sources| Template::compile(&sources, named)) {
            Ok(template) => (template, None),
            Err(fault) => (None, Some(Error::BrokenTemplate { fault: Arc::new(fault) })),
        };
        Ok(Self { template, fault, tokenizer: parts.tokenizer, ends: parts.ends, defaults: parts.defaults })
    }

    /// The ids of a text. With `special`, what the model wants around a plain prompt (a first `<bos>`, say).
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        self.tokenizer.encode(text, special)
    }

    /// As [`encode`](Self::encode), for a caller who can use fewer than `most` tokens: a text that is certain to have as many is
    /// refused before the long work of encoding it.
    ///
    /// # Errors
    /// [`Error::TooManyTokens`] then.
    pub fn encode_within(&self, text: &str, special: bool, most: usize) -> Result<Vec<u32>> {
        let least = self.tokenizer.least(text.len());
        if least >= most {
            return Err(Error::TooManyTokens { least, most });
        }
        self.encode(text, special)
    }

    /// As [`encode_chat`](Self::encode_chat), within as [`encode_within`](Self::encode_within) says.
    ///
    /// # Errors
    /// As both.
    pub fn encode_chat_within(&self, chat: &Chat, most: usize) -> Result<Vec<u32>> {
        self.encode_within(&self.render_chat(chat)?, false, most)
    }

    /// The ids of a rendered chat. The template writes all special tokens itself.
    pub fn encode_chat(&self, chat: &Chat) -> Result<Vec<u32>> {
        self.encode(&self.render_chat(chat)?, false)
    }

    /// The prompt text of a chat.
    pub fn render_chat(&self, chat: &Chat) -> Result<String> {
        let template = self.template.as_ref().ok_or_else(|| match &self.fault {
            Some(Error::BrokenTemplate { fault }) => Error::BrokenTemplate { fault: fault.clone() },
            _ => Error::NoTemplate,
        })?;
        chat::render(template, chat, SystemTime::now())
    }

    /// The text of ids, as a whole: a first space that only the tokenizer added is gone again.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        let pieces = &self.tokenizer.pieces;
        let (mut decoder, mut text) = (Decoder::default(), String::new());
        for &id in ids {
            match pieces.kind(id) {
                Kind::Absent => return Err(Error::UnknownToken { id, vocab: pieces.len() }),
                Kind::Special if skip_special => {}
                Kind::Special | Kind::Text => decoder.push(pieces.bytes(id), &mut text),
            }
        }
        decoder.finish(&mut text);
        if pieces.drop_first_space && text.starts_with(' ') {
            text.remove(0);
        }
        Ok(text)
    }

    /// All tokens that end an answer.
    pub fn stop_ids(&self) -> &[u32] {
        &self.ends
    }

    /// What the model's author recommends for sampling.
    pub fn defaults(&self) -> &SamplingDefaults {
        &self.defaults
    }

    /// A session that turns an answer's ids into text and watches for `stops`.
    pub fn session(&self, stops: &[String]) -> Session {
        self.session_showing(stops, &[])
    }

    /// The same, where control tokens of these names are part of the text: whoever reads a model's calls needs the marks around them.
    pub fn session_showing(&self, stops: &[String], marks: &[&str]) -> Session {
        let shown = marks.iter().filter_map(|mark| self.token_id(mark)).collect();
        Session::new(self.tokenizer.pieces.clone(), stops, shown)
    }

    /// The text of the chat template, the one for tools included; empty without one.
    pub fn template_text(&self) -> String {
        self.template.as_ref().map(Template::text).unwrap_or_default()
    }

    /// One more than the largest id. The model's embedding may have fewer or more rows.
    pub fn vocab(&self) -> usize {
        self.tokenizer.pieces.len()
    }

    /// Whether chats can be rendered.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// Why chats cannot be rendered although the model comes with a chat template: a warning for whoever loads it.
    pub fn template_fault(&self) -> Option<&Error> {
        self.fault.as_ref()
    }

    /// The bytes a token stands for, special ones included; empty beyond the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        self.tokenizer.pieces.bytes(id).to_vec()
    }

    /// Whether a token is a control token, which has no text in an answer.
    pub fn is_special(&self, id: u32) -> bool {
        self.tokenizer.pieces.kind(id) == Kind::Special
    }

    /// The id of a token by its exact name.
    pub fn token_id(&self, name: &str) -> Option<u32> {
        self.tokenizer.id_of(name)
    }
}
