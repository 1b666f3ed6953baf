//! The known ways of cutting text before byte-level BPE, by the names GGUF files use.
//!
//! Each pattern is the one of the model family's own `tokenizer.json`.

use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer as Library};

use crate::error::{Error, Result};

/// What is done before byte-level splitting.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// GPT-2's own pattern.
    Gpt2,
    /// Every digit alone, then GPT-2's pattern.
    Digits,
    /// One pattern after another.
    Patterns(&'static [&'static str]),
}

/// One way of cutting, and what goes with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pre {
    names: &'static [&'static str],
    cut: Cut,
    nfc: bool,
    /// Whether a word that is a token as a whole is taken as it is.
    pub(crate) ignore_merges: bool,
    /// Whether a prompt begins with the `bos` token where the file does not say.
    pub(crate) add_bos: bool,
}

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];

/// A plain entry; the table below changes what differs.
const PLAIN: Pre = Pre { names: &[], cut: Cut::Gpt2, nfc: false, ignore_merges: false, add_bos: false };

const KNOWN: [Pre; 9] = [
    Pre { names: &["default", "gpt-2", "phi-2"], ..PLAIN },
    Pre { names: &["smollm", "starcoder", "refact", "command-r"], cut: Cut::Digits, ..PLAIN },
    Pre { names: &["qwen2", "deepseek-r1-qwen"], cut: Cut::Patterns(&[QWEN2]), nfc: true, ..PLAIN },
    Pre { names: &["qwen35"], cut: Cut::Patterns(&[QWEN35]), ..PLAIN },
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3"],
        cut: Cut::Patterns(&[LLAMA3]),
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Pre { names: &["glm4"], cut: Cut::Patterns(&[LLAMA3]), ignore_merges: true, ..PLAIN },
    Pre { names: &["gpt-4o", "minimax-m2"], cut: Cut::Patterns(&[GPT4O]), ..PLAIN },
    Pre { names: &["tekken"], cut: Cut::Patterns(&[TEKKEN]), ignore_merges: true, add_bos: true, ..PLAIN },
    Pre { names: &["deepseek-v3"], cut: Cut::Patterns(&DEEPSEEK3), ..PLAIN },
];

/// The way of this name.
pub(crate) fn find(name: &str) -> Result<Pre> {
    KNOWN
        .into_iter()
        .find(|pre| pre.names.contains(&name))
        .ok_or_else(|| Error::PreTokenizer { found: name.to_owned(), known: names().collect::<Vec<_>>().join(", ") })
}

/// All names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().flat_map(|pre| pre.names).copied()
}

impl Pre {
    /// Sets normalizer, pre-tokenizer and decoder.
    pub(crate) fn install(&self, library: &mut Library) -> tokenizers::Result<()> {
        if self.nfc {
            library.with_normalizer(Some(NFC))?;
        }
        let bytes = |own_pattern| PreTokenizerWrapper::from(ByteLevel::new(false, true, own_pattern));
        let steps = match self.cut {
            Cut::Gpt2 => vec![bytes(true)],
            Cut::Digits => vec![Digits::new(true).into(), bytes(true)],
            Cut::Patterns(patterns) => {
                let split = |pattern: &&str| {
                    let pattern = SplitPattern::Regex((*pattern).to_owned());
                    Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map(PreTokenizerWrapper::from)
                };
                let mut steps = patterns.iter().map(split).collect::<tokenizers::Result<Vec<_>>>()?;
                steps.push(bytes(false));
                steps
            }
        };
        library.with_pre_tokenizer(Some(Sequence::new(steps)));
        library.with_decoder(Some(ByteLevel::default()));
        Ok(())
    }
}
