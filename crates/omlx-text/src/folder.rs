//! The text side of a model folder: which files are read, in which order, and how large they may be.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::defaults::SamplingDefaults;
use crate::ends;
use crate::error::{Error, Result};
use crate::template::Sources;
use crate::tokenizer::Tokenizer;

/// Vocabularies of a quarter million tokens make files of about 35 MB.
const MAX_TOKENIZER_BYTES: u64 = 256 << 20;
const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// The largest template seen in the wild has about 30 kB.
pub(crate) const MAX_TEMPLATE_BYTES: usize = 1 << 20;

/// Special tokens that templates may name.
const NAMED_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// A parsed JSON file that remembers where it came from.
#[derive(Debug)]
pub(crate) struct JsonFile {
    pub(crate) path: PathBuf,
    pub(crate) value: Value,
}

/// What a loaded model needs, from whichever kind of file.
pub(crate) struct Parts {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) ends: Vec<u32>,
    pub(crate) defaults: SamplingDefaults,
    /// Broken ones are no reason not to load: only chats need them.
    pub(crate) sources: Result<Sources>,
    /// `bos_token` and so on, for templates.
    pub(crate) named: Map<String, Value>,
}

/// Reads a model folder.
pub(crate) fn read(folder: &Path) -> Result<Parts> {
    let path = folder.join("tokenizer.json");
    let Some(json) = read_file(&path, MAX_TOKENIZER_BYTES)? else {
        return Err(Error::NoTokenizer { path: folder.to_path_buf() });
    };
    let tokenizer = Tokenizer::from_json(without_mark(&json), &path)?;
    let config = json_file(&folder.join("config.json"))?;
    let generation = json_file(&folder.join("generation_config.json"))?;
    let tokens = json_file(&folder.join("tokenizer_config.json"))?;

    let mut ends = Vec::new();
    ends::from_token(&tokens, |token| tokenizer.id_of(token), &mut ends);
    ends::from_ids(&generation, &mut ends)?;
    ends::from_ids(&config, &mut ends)?;
    Ok(Parts {
        defaults: SamplingDefaults::read(&generation)?,
        sources: sources(folder, &tokens),
        named: named_tokens(&tokens.value),
        tokenizer,
        ends,
    })
}

/// Templates by name. A file of its own beats the tokenizer's configuration.
fn sources(folder: &Path, tokens: &JsonFile) -> Result<Sources> {
    let mut sources = Sources::default();
    if let Some(value) = tokens.value.get("chat_template") {
        sources.add_config(value, &tokens.path)?;
    }
    let processor = json_file(&folder.join("chat_template.json"))?;
    if let Some(value) = processor.value.get("chat_template") {
        sources.add_config(value, &processor.path)?;
    }
    let lone = folder.join("chat_template.jinja");
    if let Some(text) = read_text(&lone)? {
        sources.set("default", text, lone.display().to_string());
        // A lone file is the whole truth: a named template of the configuration would bypass it.
        sources.forget("tool_use");
    }
    let more = folder.join("additional_chat_templates/tool_use.jinja");
    if let Some(text) = read_text(&more)? {
        sources.set("tool_use", text, more.display().to_string());
    }
    Ok(sources)
}

fn named_tokens(config: &Value) -> Map<String, Value> {
    NAMED_TOKENS
        .iter()
        .filter_map(|name| {
            let text = ends::token_text(config.get(*name))?;
            Some(((*name).to_owned(), Value::from(text)))
        })
        .collect()
}

/// A JSON file; one that does not exist counts as empty.
pub(crate) fn json_file(path: &Path) -> Result<JsonFile> {
    let value = match read_file(path, MAX_CONFIG_BYTES)? {
        None => Value::Null,
        Some(bytes) => serde_json::from_slice(without_mark(&bytes))
            .map_err(|source| Error::Json { path: path.to_path_buf(), source })?,
    };
    Ok(JsonFile { path: path.to_path_buf(), value })
}

/// The bytes after a byte order mark, which some editors put before a text and no JSON may have.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

fn read_text(path: &Path) -> Result<Option<String>> {
    let Some(bytes) = read_file(path, MAX_TEMPLATE_BYTES as u64)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|bad| Error::Io {
        path: path.to_path_buf(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, bad),
    })
}

/// A file's bytes; none if it does not exist.
fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let bytes = match fs::metadata(path) {
        // Opening a pipe waits for who writes to it, perhaps for ever.
        Ok(meta) if !meta.is_file() => {
            let why = "not a regular file; put the file itself (or a link to it) there";
            return Err(io(std::io::Error::new(std::io::ErrorKind::InvalidInput, why)));
        }
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    if bytes > limit {
        return Err(Error::FileTooLarge { path: path.to_path_buf(), bytes, limit });
    }
    let mut read = fs::read(path).map_err(io)?;
    // Some editors put a byte order mark before a text.
    if read.starts_with(b"\xef\xbb\xbf") {
        read.drain(..3);
    }
    Ok(Some(read))
}
